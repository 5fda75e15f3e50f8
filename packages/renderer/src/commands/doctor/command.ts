import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';
import { withInput } from '../options/options.ts';

/** Adds `sluice doctor`. */
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
    .addOption(outputOption())
    .action(run(async (options, subject) => (await import('./doctor.ts')).doctorCommand(subject, options)));
}
