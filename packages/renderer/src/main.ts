import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { exitCodes } from './exit.ts';
import { version } from './version.ts';

// Each command is loaded when it is called: `sluice --version` must not wait for parsers that it does not use.

const program = new Command('sluice')
  .description('Renders Kubernetes Services into versioned rule bundles, one per node.')
  .version(version)
  .configureHelp({ sortSubcommands: false })
  .exitOverride();

examples(
  program,
  [
    'sluice render -f manifests/ -o rendered',
    'kustomize build . | sluice render -f - --base snapshot.yaml -c sluice.yaml -o rendered',
    'sluice render -f manifests/ -c sluice.yaml -o rendered --check',
    'sluice show rendered --node node-a --tool iptables | iptables-restore --noflush',
  ],
  'Exit codes: 0 done or same, 1 different or stale, 2 problem in the input or usage.',
);

/** Ends the help of a command with examples, and its usage errors with where the help is. */
function examples(command: Command, lines: readonly string[], before?: string): Command {
  const head = before === undefined ? '' : `\n${before}\n`;
  const name =
    command === program ? 'sluice' : `sluice ${command.parent === program ? '' : 'allocations '}${command.name()}`;
  return command
    .showHelpAfterError(`    ${name} --help shows what there is`)
    .addHelpText('after', `${head}\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}`);
}

function notEmpty(value: string): string {
  if (value === '') throw new InvalidArgumentError('It is empty.');
  return value;
}

const collect = (value: string, list: readonly string[] = []): readonly string[] => [...list, notEmpty(value)];

/** The options with which every command that reads manifests says where they are. */
function withInput(command: Command): Command {
  return command
    .requiredOption(
      '-f, --filename <FILE|DIR|->',
      'manifests to read, in YAML or JSON; - is standard input; may be repeated',
      collect,
    )
    .option('-R, --recursive', 'read directories below a DIR too')
    .option('--base <SNAPSHOT>', 'what the cluster has now; the manifests are laid over it; may be repeated', collect)
    .option('-c, --config <FILE>', 'the SluiceConfig; allocations are kept beside it', notEmpty)
    .option('--strict', 'take warnings for errors');
}

examples(withInput(program.command('render')), [
  'sluice render -f manifests/ -o rendered',
  'sluice render -f manifests/ -R -c sluice.yaml -o rendered --check     # in CI: exit code 1 when it is stale',
  'kubectl get services,endpointslices,nodes -A -o yaml > snapshot.yaml',
  'kustomize build . | sluice render -f - --base snapshot.yaml -c sluice.yaml -o rendered',
])
  .summary('write the rules of every node into a directory')
  .description('Reads Services, endpoints and Nodes and writes the rules of every node into a bundle directory.')
  .requiredOption('-o, --output <DIR>', 'the bundle directory', notEmpty)
  .option('--check', 'write nothing; say whether DIR is what would be written, and show what is stale')
  .action(run(async (options) => (await import('./commands/render.ts')).renderCommand(options)));

examples(withInput(program.command('validate')), [
  'sluice validate -f manifests/ --strict',
  'helm template shop ./chart | sluice validate -f - --report json',
])
  .summary('read and report without writing')
  .description('Reads everything that `render` reads and reports every problem, without writing.')
  .addOption(new Option('--report <FORMAT>', 'how to print the problems').choices(['text', 'json']).default('text'))
  .action(run(async (options) => (await import('./commands/validate.ts')).validateCommand(options)));

examples(program.command('show'), [
  'sluice show --node node-a',
  'sluice show rendered --node node-a --service shop/web',
  'sluice show rendered --node node-a --tool iptables | iptables-restore --noflush',
])
  .summary('print what a node loads, in the native syntax of the tool')
  .description('Prints the resolved text of one node, which a person can load by hand.')
  .argument('[DIR]', 'the bundle directory', 'rendered')
  .requiredOption('--node <NAME>', 'the node', notEmpty)
  .option('--service <NS/NAME>', 'only the lines of one Service', notEmpty)
  .addOption(new Option('--tool <TOOL>', 'only the text for one tool').choices(['iptables', 'ip6tables', 'sysctl']))
  .action(run(async (options, dir) => (await import('./commands/show.ts')).showCommand(dir, options)));

examples(program.command('ls'), ['sluice ls', "sluice ls rendered -o json | jq -r '.nodes[].version' | sort | uniq -c"])
  .summary('list profiles, nodes and the version of each')
  .description('Lists profiles and nodes with the version of each. Nodes with one version have the same rules.')
  .argument('[DIR]', 'the bundle directory', 'rendered')
  .addOption(new Option('-o, --output <FORMAT>', 'how to print').choices(['text', 'json']).default('text'))
  .action(run(async (options, dir) => (await import('./commands/ls.ts')).lsCommand(dir, options)));

examples(program.command('init'), [
  'sluice init',
  'kubectl get configmap kube-proxy -n kube-system -o yaml | sluice init -f -',
])
  .summary('write a commented sluice.yaml')
  .description("Writes a commented config, with kube-proxy's own settings when its ConfigMap is given.")
  .argument('[FILE]', 'the config', 'sluice.yaml')
  .option('-f, --filename <FILE|->', "kube-proxy's ConfigMap or KubeProxyConfiguration", notEmpty)
  .option('--force', 'overwrite a file that is there')
  .action(run(async (options, file) => (await import('./commands/init.ts')).initCommand(file, options)));

const allocations = program
  .command('allocations')
  .summary('addresses and ports that Sluice gave to Services')
  .description(
    'Addresses and ports that Sluice gave to Services; `render` keeps them in allocations/ beside the config.',
  );

examples(allocations.command('fix'), [
  'git merge origin/main',
  'sluice allocations fix -c sluice.yaml --base-branch origin/main',
])
  .summary('move one of two allocations that hold one number')
  .description('Moves the allocation that the base branch does not have, where two files hold one address or port.')
  .requiredOption('-c, --config <FILE>', 'the SluiceConfig; allocations are kept beside it', notEmpty)
  .requiredOption('--base-branch <REV>', 'the revision whose allocations stay, such as origin/main', notEmpty)
  .action(run(async (options) => (await import('./commands/allocations.ts')).fixCommand(options)));

examples(withInput(allocations.command('manifests')), [
  'sluice allocations manifests -f manifests/ -c sluice.yaml | kubectl apply -f -',
])
  .summary('print the Services with their numbers filled in')
  .description('Prints the Services with their numbers filled in, so that an API server adopts them.')
  .action(run(async (options) => (await import('./commands/allocations.ts')).manifestsCommand(options)));

/** A command's own part: its options and its argument in, its exit code out. An argument has a default wherever it is asked for. */
// oxlint-disable-next-line typescript/no-explicit-any -- commander gives options without a type; each command names its own
type Body = (options: any, argument: string) => number | Promise<number>;

function run(body: Body): (...args: unknown[]) => Promise<void> {
  return async (...args) => {
    process.exitCode = await body(args.at(-2), args.length > 2 ? (args[0] as string) : '');
  };
}

/** A reader that has seen enough (`| head`) is no failure; a disk that is full is one. Without a listener Node prints a stack. */
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE') return;
  process.stderr.write(`error: Cannot write to standard output: ${error.message} [OUTPUT_UNWRITABLE]\n`);
  process.exitCode = exitCodes.problem;
});
process.stderr.on('error', () => {});

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode =
    error instanceof CommanderError
      ? error.exitCode === 0
        ? exitCodes.done
        : exitCodes.problem
      : (await import('./commands/failure.ts')).tellFailure(error);
}
