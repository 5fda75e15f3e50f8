import { examples, reportOption, pathOption } from '@sluice/cli';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { run } from '../options/action.ts';
import { notEmpty } from '../options/values.ts';

/** Adds `sluice release`. */
export function addRelease(program: Command): void {
  examples(program.command('release'), [
    'sluice release rendered --serial auto --source $(git rev-parse HEAD) -o /srv/release',
    'sluice release rendered --serial auto --source $(git rev-parse HEAD) --wave waves.yaml -o /srv/release',
    'sluice release main:rendered --serial 42 --source $(git rev-parse main) --expires 2027-01-31T00:00:00Z -o release',
  ])
    .summary('make a release of a bundle')
    .description(
      'Writes a bundle with release.yaml, its metadata, and SHA256SUMS, which covers all files and is what gets signed. The same arguments give the same bytes. Prints the serial.',
    )
    .argument('<DIR>', 'a bundle directory, or a Git revision of one (REV:PATH)')
    .option(
      '--serial <N|auto>',
      'greater than the serials of all earlier releases; auto: one more than the release in DIR of -o',
      serial,
    )
    .addOption(
      new Option(
        '--endpoints',
        'make an endpoint update of the release in DIR of -o, with the next revision',
      ).conflicts(['serial', 'wave', 'urgent', 'acceptRemoval']),
    )
    .requiredOption('--source <COMMIT>', 'the commit of the bundle', commit)
    .option('--expires <TIME>', 'when nodes raise an alarm about an old release, such as 2027-01-31T00:00:00Z', instant)
    .option('--urgent', 'nodes apply it at once, also nodes in back-off after three failed releases in a row')
    .option('--accept-removal', 'nodes apply it at once, although it takes away most Services or endpoints')
    .option('--wave <FILE>', 'the waves of nodes that `sluice promote` opens one by one', notEmpty)
    .addOption(pathOption('DIR', 'the release directory'))
    .addOption(reportOption())
    .hook('preAction', (command) => {
      const { serial: given, endpoints } = command.opts<{ serial?: number; endpoints?: boolean }>();
      if (given === undefined && !endpoints) command.error("error: required option '--serial <N|auto>' not specified");
    })
    .action(run(async (options, dir) => (await import('./release.ts')).releaseCommand(dir, options)));
}

// Only the form is checked here; the limits of a release are in the bundle package, which commands load when they run.

function serial(text: string): number | 'auto' {
  if (text !== 'auto' && !/^[1-9]\d{0,11}$/.test(text))
    throw new InvalidArgumentError('Write a whole number from 1 to 999999999999, or auto.');
  return text === 'auto' ? text : Number(text);
}

function commit(text: string): string {
  if (!/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(text))
    throw new InvalidArgumentError('Write the full commit ID, as printed by `git rev-parse HEAD`.');
  return text;
}

function instant(text: string): string {
  const time = Date.parse(text);
  if (
    !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(text) ||
    Number.isNaN(time) ||
    new Date(time).toISOString() !== text.replace('Z', '.000Z')
  )
    throw new InvalidArgumentError('Write it in UTC as 2027-01-31T00:00:00Z.');
  return text;
}
