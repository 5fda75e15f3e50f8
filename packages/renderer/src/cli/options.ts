import { type Command, InvalidArgumentError } from 'commander';

/** The value of an option that must say something. */
export function notEmpty(value: string): string {
  if (value === '') throw new InvalidArgumentError('It is empty.');
  return value;
}

/** The values of an option that may be repeated. */
export const collect = (value: string, list: readonly string[] = []): readonly string[] => [...list, notEmpty(value)];

/** The options with which every command that reads manifests says where they are. */
export function withInput(command: Command, source: 'files' | 'or a cluster' = 'files'): Command {
  const filename = [
    '-f, --filename <FILE|DIR|->',
    'manifests to read, in YAML or JSON; - is standard input; may be repeated',
  ] as const;
  const read = source === 'files' ? command.requiredOption(...filename, collect) : command.option(...filename, collect);
  return read
    .option('-R, --recursive', 'read directories below a DIR too')
    .option('--base <SNAPSHOT>', 'what the cluster has now; the manifests are laid over it; may be repeated', collect)
    .option('-c, --config <FILE>', 'the SluiceConfig; allocations are kept beside it', notEmpty)
    .option('--strict', 'take warnings for errors');
}

/**
 * A command's own part: its options and its arguments in, its exit code out. An argument that may be left out has a default,
 * so each comes as a text; the last may be a list.
 */
// oxlint-disable-next-line typescript/no-explicit-any -- commander gives options and arguments without types; each command names its own
type Body = (options: any, ...args: any[]) => number | Promise<number>;

/** The action of a command: runs its body and keeps its exit code for the end of the process. */
export function run(body: Body): (...args: unknown[]) => Promise<void> {
  // Commander passes the arguments, then the options, then the command itself.
  return async (...args) => {
    process.exitCode = await body(args.at(-2), ...args.slice(0, -2));
  };
}
