import { outputOption } from '@sluice/cli';
import { type Command, InvalidArgumentError, Option } from 'commander';

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

const secondsIn = { s: 1, m: 60, h: 3600 } as const;

/** A time such as `90s`, `2m`, `1h` or `30`, in seconds: at least one, at most a day. */
export const durationOption = (flags: string, description: string): Option =>
  new Option(flags, description).argParser((text: string): number => {
    const [, digits = '', unit = 's'] = /^(\d{1,5})([smh]?)$/.exec(text) ?? [];
    const seconds = Number(digits) * secondsIn[(unit === '' ? 's' : unit) as keyof typeof secondsIn];
    if (digits !== '' && seconds >= 1 && seconds <= 86_400) return seconds;
    throw new InvalidArgumentError('It must be a time from 1s to 24h, such as 90s, 10m or 1h.');
  });

/** What `sluiced top` may show first. */
export const orders = ['connections', 'rate', 'live', 'bytes', 'imbalance', 'name'] as const;
export type Order = (typeof orders)[number];
