import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';
import { plainHttpOption } from '../options/options.ts';

/** Adds `sluice push`. */
export function addPush(program: Command): void {
  examples(program.command('push'), ['sluice push release registry.example.com/sluice/shop:42'])
    .summary('push a release to a registry')
    .description(
      'Pushes a release and its signatures to a container registry. Credentials come from the docker config. Prints the reference by digest.',
    )
    .argument('<DIR>', 'a release directory')
    .argument('<REF>', 'REGISTRY/REPOSITORY:TAG')
    .addOption(plainHttpOption())
    .addOption(outputOption())
    .action(run(async (options, dir, ref) => (await import('./push.ts')).pushCommand(dir, ref, options)));
}
