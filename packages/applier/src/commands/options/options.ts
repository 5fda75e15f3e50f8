import { outputOption } from '@sluice/cli';
import { type Command, Option } from 'commander';

/** The options that every command has: node, config, state directory, output format. */
export function onNode(command: Command, format = outputOption()): Command {
  return command
    .option('-c, --config <FILE>', 'the config file (default: /etc/sluice/sluiced.yaml)')
    .option('--node <NAME>', "the node's name in the bundle; overrides the config")
    .option('--state <DIR>', 'the state directory; overrides the config')
    .addOption(format);
}

/** Whether the bundle must be signed, in commands that read one. */
export const signaturesOption = (): Option =>
  new Option('--signatures <POLICY>', 'whether the bundle must be a signed release; overrides the config').choices([
    'required',
    'none',
  ]);
