import { examples, findingsOption, outputOption } from '@sluice/cli';
import { type Command, Option } from 'commander';
import { run } from '@sluice/renderer/commands/options/action.ts';
import { withInput } from '@sluice/renderer/commands/options/options.ts';
import { withFlow, withPacket, withReceipts } from '../options/trace.ts';
import { notEmpty } from '@sluice/renderer/commands/options/values.ts';

/** The options and help of the verbs with which operators follow a packet. */

export function addTrace(program: Command): void {
  const command = examples(program.command('trace'), [
    'sluice trace --node node-a --from 10.244.1.7 --to 10.96.0.10:80/tcp',
    'sluice trace --node node-a --from 10.244.1.7 --to shop/web:80 --layout tree',
    'sluice trace --node node-a --from node --to 192.0.2.11:30080/tcp rendered',
    'sluice trace --node node-a --from 198.51.100.7 --in eth0 --to [2001:db8::9]:443/tcp main:rendered',
    'sluice trace --live node-a.json --from 10.244.1.7 --to 10.96.0.10:80/tcp      # a file of `sluiced observe`',
    'sluice trace --at 2026-11-24T08:00:00Z --node node-a --from 198.51.100.7 --to 203.0.113.9:80/tcp',
    'sluice trace --at 2026-11-24 --branch origin/main --node node-a --from node --to shop/web:http',
    'sluice trace --at v1.4 --node node-a --from node --to shop/web --receipts receipts --allowed-receipts allowed_receipts',
  ])
    .summary('trace a packet through the rules of a node')
    .description(
      "Traces the first packet of a connection through a node's rules, to every endpoint that it may reach. With --at it reads the bundle " +
        'of a commit from the objects of the Git clone: the work tree is not touched. With receipts it says whether and when the node ran ' +
        'these rules.',
    )
    .argument(
      '[DIR]',
      'a bundle directory, or a Git revision of one; with --at the directory in the repository',
      'rendered',
    )
    .option('--node <NAME>', 'the node; required without --live', notEmpty)
    .addOption(
      new Option(
        '--at <REV|TIME>',
        'the bundle of a commit, branch or tag; or of the last commit at a time: 2026-11-24T08:00:00Z, or 2026-11-24 for the start of ' +
          'that day in UTC',
      )
        .argParser(notEmpty)
        .conflicts('live'),
    )
    .option(
      '--branch <REV>',
      'with --at: the branch on whose first parents a time is looked for; default: HEAD',
      notEmpty,
    )
    .option(
      '--live <FILE>',
      'trace through the rules that `sluiced observe` found on a node, of any program, instead of a bundle',
      notEmpty,
    );
  withReceipts(withFlow(command))
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('../trace/trace.ts')).traceCommand(dir, options)));
}

/** Adds `sluice at`, as `sluice trace --at` was called before 0.2. It goes with 0.3. */
export function addAt(program: Command): void {
  withReceipts(withPacket(program.command('at', { hidden: true })))
    .arguments('<REV|TIME> <trace> [DIR]')
    .option('--branch <REV>')
    .addOption(outputOption())
    .action(
      run(async (options, at, _trace, dir = 'rendered') =>
        (await import('../trace/trace.ts')).traceCommand(dir, { ...options, at }),
      ),
    );
}

export function addBisect(program: Command): void {
  const command = examples(
    program.command('bisect'),
    [
      'sluice bisect --from v1.4 -- trace --node node-a --from 10.244.1.7 --to shop/web:80',
      'sluice bisect --from 2026-11-01 --to 2026-11-24T08:00:00Z -- trace rendered --node node-a --from 198.51.100.7 --to 203.0.113.9:80/tcp',
      'sluice bisect --from HEAD~1000 --ignore-endpoints -- trace --node node-a --from node --to shop/web:http',
    ],
    'Exit codes: 0 found; 1 several commits are left, because nothing can be said about them; 2 the ends do not differ, or cannot be read.',
  )
    .summary('find the commit that changed the outcome of a packet')
    .description(
      'Halves the history of a bundle, as `git bisect` does, until the commit is found with which a packet is treated as it is at the end. ' +
        'Objects of the Git clone are read; the work tree is not touched. Commits without a valid bundle or without the node are skipped. ' +
        'A merge counts as one commit.',
    )
    .argument('<COMMAND...>', 'after --: trace [DIR] with the options of `sluice trace`')
    .requiredOption(
      '--from <REV|TIME>',
      'the start: a commit, branch or tag, or a time; the packet is treated otherwise there',
      notEmpty,
    )
    .option('--to <REV|TIME>', 'the end', notEmpty, 'HEAD')
    .option(
      '--ignore-endpoints',
      'only whether connections are served, rejected or dropped counts, not by which endpoints',
    );
  withReceipts(command)
    .addOption(outputOption())
    .action(run(async (options, words) => (await import('../bisect/bisect.ts')).bisectCommand(words, options)));
}

export function addDoctor(program: Command): void {
  examples(
    withInput(
      program
        .command('doctor')
        .argument('[SERVICE|ADDRESS]', 'namespace/name, namespace/name:port, an address, or address:port'),
    ),
    ['sluice doctor shop/web -f snapshot.yaml', 'sluice doctor 10.96.0.10:80 -f snapshot.yaml --node node-a -o json'],
  )
    .summary('find out from a snapshot why a Service does not answer')
    .description(
      'Examines what needs no node: endpoints, their readiness and ports, traffic policies, and addresses that two Services claim. Names the most likely cause, the evidence and one command. `sluiced doctor` examines a node. Exit code 1 when a cause is found.',
    )
    .option('--node <NAME>', 'the node at which packets arrive: traffic policy Local is judged for it')
    .addOption(findingsOption())
    .action(run(async (options, subject) => (await import('../doctor/doctor.ts')).doctorCommand(subject, options)));
}
