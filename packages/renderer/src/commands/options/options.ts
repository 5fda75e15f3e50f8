import { type Command, InvalidArgumentError } from 'commander';

/** Parses the value of an option that must not be empty. */
export function notEmpty(value: string): string {
  if (value === '') throw new InvalidArgumentError('The value is empty.');
  return value;
}

/** Collects the values of an option that may be repeated. */
export const collect = (value: string, list: readonly string[] = []): readonly string[] => [...list, notEmpty(value)];

/** Adds the input options that all commands that read manifests have. */
export function withInput(command: Command, source: 'files' | 'or a cluster' = 'files'): Command {
  const filename = [
    '-f, --filename <FILE|DIR|->',
    'manifests in YAML or JSON; - for standard input; may be repeated',
  ] as const;
  const read = source === 'files' ? command.requiredOption(...filename, collect) : command.option(...filename, collect);
  return read
    .option('-R, --recursive', 'read directories recursively')
    .option(
      '--base <SNAPSHOT>',
      'the current state of the cluster, overlaid with the manifests; may be repeated',
      collect,
    )
    .option('-c, --config <FILE>', 'the SluiceConfig; allocations/ is beside it', notEmpty)
    .option('--strict', 'treat warnings as errors');
}

/**
 * The body of a command: options and arguments in, exit code out. Optional arguments have defaults, so each is a string; the last
 * may be a list.
 */
// oxlint-disable-next-line typescript/no-explicit-any -- commander gives options and arguments without types; each command names its own
type CommandBody = (options: any, ...args: any[]) => number | Promise<number>;

/** Makes a commander action of a command body; its result becomes the exit code of the process. */
export function run(body: CommandBody): (...args: unknown[]) => Promise<void> {
  // Commander passes the arguments, then the options, then the command itself.
  return async (...args) => {
    process.exitCode = await body(args.at(-2), ...args.slice(0, -2));
  };
}
