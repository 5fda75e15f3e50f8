import { examples, outputOption } from '@sluice/cli';
import { type Command, InvalidArgumentError } from 'commander';
import { run } from '../options/action.ts';
import { notEmpty } from '../options/values.ts';

/** Adds `sluice sign`. */
export function addSign(program: Command): void {
  examples(program.command('sign'), [
    'sluice sign release --key ~/.ssh/id_ed25519',
    'sluice sign release --key ~/.ssh/id_ed25519_sk.pub --as bob',
    'sluice sign release --key /etc/sluice/endpoints --endpoints',
  ])
    .summary('add a signature to a release')
    .description('Adds one signature over SHA256SUMS, made by ssh-keygen, and changes nothing else.')
    .argument('<DIR>', 'a release directory')
    .requiredOption(
      '--key <FILE>',
      'a private key, or a public key whose private key is in an agent or on a token',
      notEmpty,
    )
    .option('--as <NAME>', 'for an additional signer: writes SHA256SUMS.NAME.sig', label)
    .option('--endpoints', 'sign with a key that is restricted to endpoint updates')
    .addOption(outputOption())
    .action(run(async (options, dir) => (await import('./sign.ts')).signCommand(dir, options)));
}

function label(text: string): string {
  if (!/^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/.test(text))
    throw new InvalidArgumentError('Use lower-case letters, digits and dashes.');
  return text;
}
