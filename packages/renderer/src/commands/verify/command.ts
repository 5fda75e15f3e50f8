import { examples, outputOption } from '@sluice/cli';
import { type Command, InvalidArgumentError } from 'commander';
import { run } from '../options/action.ts';
import { notEmpty } from '../options/values.ts';

/** Adds `sluice verify`. */
export function addVerify(program: Command): void {
  examples(program.command('verify'), [
    'sluice verify release --allowed-signers allowed_signers --threshold 2',
    "sluice verify release --allowed-signers allowed_signers -o json | jq '.signers'",
  ])
    .summary('check the signatures and digests of a release')
    .description('Checks a release as a node does: signatures, digests, release.yaml and the version of each node.')
    .argument('<DIR>', 'a release directory')
    .requiredOption(
      '--allowed-signers <FILE>',
      'the keys that may sign, in the format of ssh-keygen, read more strictly',
      notEmpty,
    )
    .option('--threshold <N>', 'the number of different principals that must have signed', count, 1)
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('./verify.ts')).verifyCommand(dir, options)));
}

function count(text: string): number {
  if (!/^[1-9]\d?$/.test(text)) throw new InvalidArgumentError('Write a whole number from 1 to 99.');
  return Number(text);
}
