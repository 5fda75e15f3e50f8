import { examples, outputOption } from '@sluice/cli';
import { type Command, InvalidArgumentError } from 'commander';
import { run } from '../options/action.ts';
import { collect, notEmpty } from '../options/values.ts';

/** Adds `sluice certify`. */
export function addCertify(program: Command): void {
  examples(program.command('certify'), [
    'sluice parity node-a.observed release --node node-a -o json > node-a.json; sluice certify node-a.json --key ~/.ssh/parity',
    'sluice certify node-a.json --key ~/.ssh/parity --accept 3f2a91c04bd7e815 --by alice@example.com --hours 2',
  ])
    .summary('sign the result of `sluice parity`')
    .description(
      'Makes a parity certificate of the result of `sluice parity -o json` and signs it in namespace sluice-parity: NODE.parity.json and its signature NODE.parity.json.sig. A node with `requireParity: true` takes over from kube-proxy with a valid one alone. An incomplete result, or a difference that is not accepted, is not certified. Exit code 1 then.',
    )
    .argument('<FILE>', 'the result of `sluice parity -o json`; - for standard input')
    .requiredOption('--key <FILE>', 'the key to sign with', notEmpty)
    .option('--accept <ID>', 'the id of a difference that is accepted; may be repeated', collect)
    .option('--by <NAME>', 'who accepts the differences; required with --accept', notEmpty)
    .option('--hours <HOURS>', 'how long the certificate is valid, at most 24', hours, 24)
    .option('--out <DIR>', 'the directory to write to', notEmpty, '.')
    .addOption(outputOption())
    .action(run(async (options, file) => (await import('./certify.ts')).certifyCommand(file, options)));
}

function hours(text: string): number {
  if (!/^(?:[1-9]|1\d|2[0-4])$/.test(text)) throw new InvalidArgumentError('Write a whole number from 1 to 24.');
  return Number(text);
}
