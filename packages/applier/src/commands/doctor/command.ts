import { examples } from '@sluice/cli';
import type { Command } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode } from '../options/options.ts';

/** Adds `sluiced doctor`. */
export function addDoctor(program: Command, { terminal, finish }: CommandContext): void {
  examples(
    onNode(
      program
        .command('doctor')
        .argument('[SERVICE|ADDRESS]', 'namespace/name, namespace/name:port, an address, or address:port'),
    ),
    [
      'sluiced doctor',
      'sluiced doctor shop/web',
      'sluiced doctor 10.96.0.10:80',
      'sluiced doctor shop/web --live',
      'sluiced doctor --bundle /root/doctor.tar.gz',
      "sluiced doctor shop/web -o json | jq -r '.cause.code'",
    ],
    'Exit codes: 0 no cause found; 1 a cause found; 2 usage error; 3 not root.',
  )
    .summary('find out why a Service does not answer')
    .description(
      'Examines this node and names the most likely cause why a Service, an address or any Service does not answer, with the evidence and one command. Sends and writes nothing; with --live it opens connections of its own, whose packets are traced.',
    )
    .option(
      '--live',
      'open one connection to the Service and one to each endpoint, and trace the packets with nftables',
    )
    .option(
      '--bundle <FILE>',
      'also write the diagnosis and what it rests on into a new archive (.tar.gz), without names of Services and public addresses',
    )
    .action((subject: string | undefined, options) =>
      finish(async () => (await import('./doctor.ts')).doctor(subject, options, terminal)),
    );
}
