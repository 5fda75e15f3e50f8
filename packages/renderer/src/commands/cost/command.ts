import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';
import { layoutOption } from '../options/options.ts';
import { notEmpty } from '../options/values.ts';

/** Adds `sluice cost`. */
export function addCost(program: Command): void {
  examples(
    program.command('cost'),
    ['sluice cost rendered', 'sluice cost rendered -c sluice.yaml -o json'],
    'Exit codes: 0 within the budgets; 1 over a budget; 2 the bundle cannot be read.',
  )
    .summary('estimate the cost of a bundle, and fail over a budget')
    .description('Counts rules, chains, bytes and the longest path of a packet, and estimates load times.')
    .argument('[DIR]', 'a bundle directory, or a Git revision of one', 'rendered')
    .option('-c, --config <FILE>', 'the SluiceConfig with `budgets`', notEmpty)
    .addOption(layoutOption())
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('./cost.ts')).costCommand(dir, options)));
}
