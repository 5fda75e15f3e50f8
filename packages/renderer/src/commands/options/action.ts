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
