import { examples, reportOption, pathOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';
import { plainHttpOption } from '../options/options.ts';
import { notEmpty } from '../options/values.ts';

/** Adds `sluice pull`. */
export function addPull(program: Command): void {
  examples(program.command('pull'), [
    'sluice pull registry.example.com/sluice/shop@"$DIGEST" -o release',
    'sluice pull registry.example.com/sluice/shop@"$DIGEST" --node node-a -o release',
  ])
    .summary('pull a release from a registry')
    .description('Pulls a release and its signatures by digest and writes a release directory.')
    .argument('<REF>', 'REGISTRY/REPOSITORY@sha256:DIGEST, as `sluice push` prints it')
    .option('--node <NAME>', 'include only the files that this node needs', notEmpty)
    .addOption(plainHttpOption())
    .addOption(pathOption('DIR', 'the release directory'))
    .addOption(reportOption())
    .action(run(async (options, ref) => (await import('./pull.ts')).pullCommand(ref, options)));
}
