import { examples, outputOption } from '@sluice/cli';
import { type Command, Argument } from 'commander';
import { run } from '../options/action.ts';
import { withPacket, withReceipts } from '../options/trace.ts';
import { notEmpty } from '../options/values.ts';

/** Adds `sluice at`. */
export function addAt(program: Command): void {
  const command = examples(
    program.command('at'),
    [
      'sluice at HEAD~3 --node node-a trace --from 10.244.1.7 --to shop/web:80',
      'sluice at 2026-11-24T08:00:00Z --node node-a trace --from 198.51.100.7 --to 203.0.113.9:80/tcp rendered',
      'sluice at 2026-11-24 --branch origin/main --node node-a trace --from node --to shop/web:http',
      'sluice at v1.4 --node node-a trace --from node --to shop/web --receipts receipts --allowed-receipts allowed_receipts',
    ],
    'Exit codes: 0 traced; 2 the commit or its bundle cannot be read.',
  )
    .summary('trace a packet through the rules of a commit or a time')
    .description(
      'Traces a packet through the bundle of a commit, or of the last commit at a time, from the objects of a Git clone: the work tree is ' +
        'not touched. With receipts it says whether and when the node ran these rules.',
    )
    .argument(
      '<REV|TIME>',
      'a commit, branch or tag; or a time: 2026-11-24T08:00:00Z, or 2026-11-24 for the start of that day in UTC',
    )
    .addArgument(new Argument('<COMMAND>', 'what to do with the bundle').choices(['trace']))
    .argument('[DIR]', 'the bundle directory in the repository', 'rendered')
    .option('--branch <REV>', 'the branch on whose first parents a time is looked for; default: HEAD', notEmpty);
  withReceipts(withPacket(command))
    .addOption(outputOption())
    .action(run(async (options, when, _trace, dir) => (await import('./at.ts')).atCommand(when, dir, options)));
}
