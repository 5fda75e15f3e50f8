import { createRequire } from 'node:module';
import { Command, CommanderError, Option } from 'commander';
import type { Terminal } from './commands/terminal.ts';
import { exitCodes } from './rollout/outcome.ts';

/** The only reader of arguments, environment, clock and signals. Commands are loaded when they are needed. */

const terminal: Terminal = {
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
};

type Work = () => Promise<number>;

async function finish(work: Work): Promise<void> {
  try {
    process.exitCode = await work();
  } catch (error) {
    const { tellError } = await import('./commands/terminal.ts');
    process.exitCode = tellError(error, terminal);
  }
}

function onStop(stop: () => void): void {
  process.once('SIGTERM', stop);
  process.once('SIGINT', stop);
}

function version(): string {
  const { version: number } = createRequire(import.meta.url)('../package.json') as { version: string };
  return number;
}

function build(): Command {
  const program = new Command('sluiced');
  program
    .description(
      "Puts a node's rule bundle into its kernel, checks health and puts the old rules back when health fails.",
    )
    .version(version())
    .exitOverride()
    .addHelpText(
      'after',
      '\nExit codes: 0 done or same, 1 different, 2 problem or usage, 3 refused by the node, 4 rolled back, 5 held',
    );
  const shared = (command: Command): Command =>
    command
      .option('-c, --config <file>', 'the config (default: /etc/sluice/sluiced.yaml)')
      .option('--node <name>', "the node's name in the bundle; wins over the config")
      .option('--state <dir>', 'the state directory; wins over the config');
  shared(program.command('apply <dir>'))
    .description('put the bundle of a directory into the kernel once')
    .option('--dry-run', 'show what would be done; exit code 1 when something would')
    .option('--allow-partial', 'take a bundle whose input did not name every Service')
    .option('-v, --verbose', 'say what is done on the way')
    .action((dir: string, options) =>
      finish(async () => (await import('./commands/apply.ts')).apply(dir, options, terminal)),
    );
  shared(program.command('run'))
    .description('watch the bundle directory of the config and apply complete bundles')
    .action((options) => finish(() => runDaemon(options)));
  for (const name of ['status', 'history'] as const) {
    shared(program.command(name))
      .description(name === 'status' ? 'say what stands, and how the daemon is' : 'say what happened on this node')
      .addOption(new Option('-o, --output <format>', 'for programs').choices(['json']))
      .action((options) => finish(async () => (await import('./commands/inspect.ts'))[name](options, terminal)));
  }
  shared(program.command('rollback [generation]'))
    .description('put an earlier generation back')
    .action((wanted: string | undefined, options) =>
      finish(async () => (await import('./commands/undo.ts')).rollback(wanted, options, terminal)),
    );
  shared(program.command('cleanup'))
    .description('take every rule of Sluice out of the kernel')
    .action((options) => finish(async () => (await import('./commands/undo.ts')).cleanup(options, terminal)));
  shared(program.command('preflight [dir]'))
    .description('say whether this node can run a bundle, and what to do where not')
    .action((dir: string | undefined, options) =>
      finish(async () => (await import('./commands/preflight.ts')).preflight(dir, options, terminal)),
    );
  return program;
}

async function runDaemon(options: object): Promise<number> {
  const { run } = await import('./commands/run.ts');
  return run(options, {
    monotonicMs: () => performance.now(),
    stdout: process.stdout,
    environment: process.env,
    onStop,
  });
}

try {
  await build().parseAsync();
} catch (error) {
  if (!(error instanceof CommanderError)) throw error;
  process.exitCode = error.exitCode === 0 ? exitCodes.done : exitCodes.problem;
}
