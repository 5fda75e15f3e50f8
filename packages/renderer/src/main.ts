import { Command, CommanderError, Option } from 'commander';
import { exitCodes } from './exit.ts';
import { version } from './version.ts';

// Each command is loaded when it is called: `sluice --version` must not wait for parsers that it does not use.

const program = new Command('sluice')
  .description('Renders Kubernetes Services into versioned rule bundles, one per node.')
  .version(version)
  .showHelpAfterError('(sluice --help lists the commands)')
  .configureHelp({ sortSubcommands: false })
  .exitOverride()
  .addHelpText(
    'after',
    `
Exit codes: 0 done or same, 1 different or stale, 2 problem in the input or usage.

Examples:
  sluice render -f manifests/ -o rendered
  kustomize build . | sluice render -f - --base snapshot.yaml -c sluice.yaml -o rendered
  sluice render -f manifests/ -c sluice.yaml -o rendered --check
  sluice show rendered --node node-a --tool iptables | iptables-restore --noflush`,
  );

const collect = (value: string, list: readonly string[]): readonly string[] => [...list, value];

/** The options with which every command that reads manifests says where they are. */
function withInput(command: Command): Command {
  return command
    .requiredOption(
      '-f, --filename <FILE|DIR|->',
      'manifests to read, in YAML or JSON; - is standard input; may be repeated',
      collect,
      [],
    )
    .option('-R, --recursive', 'read directories below a DIR too', false)
    .option(
      '--base <SNAPSHOT>',
      'what the cluster has now; the manifests are laid over it; may be repeated',
      collect,
      [],
    )
    .option('-c, --config <FILE>', 'the SluiceConfig; allocations are kept beside it')
    .option('--strict', 'take warnings for errors', false);
}

withInput(program.command('render'))
  .summary('write the rules of every node into a directory')
  .description('Reads Services, endpoints and Nodes and writes the rules of every node into a bundle directory.')
  .requiredOption('-o, --output <DIR>', 'the bundle directory')
  .option('--check', 'write nothing; say whether DIR is what would be written, and show what is stale', false)
  .action(run(async (options) => (await import('./commands/render.ts')).renderCommand(options)));

withInput(program.command('validate'))
  .summary('read and report without writing')
  .description('Reads everything that `render` reads and reports every problem, without writing.')
  .addOption(new Option('--report <FORMAT>', 'how to print the problems').choices(['text', 'json']).default('text'))
  .action(run(async (options) => (await import('./commands/validate.ts')).validateCommand(options)));

program
  .command('show [DIR]')
  .summary('print what a node loads, in the native syntax of the tool')
  .description('Prints the resolved text of one node, which a person can load by hand. DIR is rendered unless given.')
  .requiredOption('--node <NAME>', 'the node')
  .option('--service <NS/NAME>', 'only the lines of one Service')
  .addOption(new Option('--tool <TOOL>', 'only the text for one tool').choices(['iptables', 'ip6tables', 'sysctl']))
  .action(run(async (options, dir) => (await import('./commands/show.ts')).showCommand(dir, options)));

program
  .command('ls [DIR]')
  .summary('list profiles, nodes and the version of each')
  .description('Lists profiles and nodes with the version of each. DIR is rendered unless given.')
  .addOption(new Option('-o, --output <FORMAT>', 'how to print').choices(['text', 'json']).default('text'))
  .action(run(async (options, dir) => (await import('./commands/ls.ts')).lsCommand(dir, options)));

program
  .command('init [FILE]')
  .summary('write a commented sluice.yaml')
  .description("Writes a commented sluice.yaml (or FILE), with kube-proxy's own settings when its ConfigMap is given.")
  .option('-f, --filename <FILE|->', "kube-proxy's ConfigMap or KubeProxyConfiguration")
  .option('--force', 'overwrite a file that is there', false)
  .action(run(async (options, file) => (await import('./commands/init.ts')).initCommand(file, options)));

const allocations = program.command('allocations').description('Addresses and ports that Sluice gave to Services.');
allocations
  .command('fix')
  .description('Moves the allocation that the base branch does not have, where two files hold one address or port.')
  .requiredOption('-c, --config <FILE>', 'the SluiceConfig; allocations are kept beside it')
  .requiredOption('--base-branch <REV>', 'the revision whose allocations stay, such as origin/main')
  .action(run(async (options) => (await import('./commands/allocations.ts')).fixCommand(options)));
withInput(allocations.command('manifests'))
  .description('Prints the Services with their numbers filled in, so that an API server adopts them.')
  .action(run(async (options) => (await import('./commands/allocations.ts')).manifestsCommand(options)));

/** A command's own part: its options and first argument in, its exit code out. */
// oxlint-disable-next-line typescript/no-explicit-any -- commander gives options without a type; each command names its own
type Body = (options: any, argument: string | undefined) => Promise<number>;

function run(body: Body): (...args: unknown[]) => Promise<void> {
  return async (...args) => {
    const options = args.at(-2);
    const argument = args.length > 2 ? (args[0] as string | undefined) : undefined;
    process.exitCode = await body(options, argument);
  };
}

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? exitCodes.done : exitCodes.problem;
  else {
    process.stderr.write(`sluice: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = exitCodes.problem;
  }
}
