import { examples, formats, outputOption } from '@sluice/cli';
import { type Command, Option } from 'commander';
import { run } from '../options/action.ts';
import { withInput } from '../options/options.ts';

/** Adds `sluice validate`. */
export function addValidate(program: Command): void {
  examples(withInput(program.command('validate')), [
    'sluice validate -f manifests/ --strict',
    'helm template shop ./chart | sluice validate -f - -o json',
  ])
    .summary('check manifests without writing')
    .description('Reads the same input as `render` and reports all problems, without writing.')
    .addOption(outputOption())
    .addOption(new Option('--report <FORMAT>', 'the same as -o').choices(formats))
    .option('-v, --verbose', 'list every object of a repeated problem')
    .action(run(async (options) => (await import('./validate.ts')).validateCommand(options)));
}
