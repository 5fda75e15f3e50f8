import { examples, exitLine, outputOption, reportOption, shellCommands, versionCommand, withLog } from '@sluice/cli';
import { Command, InvalidArgumentError, Option } from 'commander';
import { nodesIn } from './commands/names.ts';
import type { CommonOptions, Terminal } from './commands/terminal.ts';
import type { Decision } from './rollout/ports.ts';
import { version, versionSource } from './version.ts';

/** What the process that it runs in gives to a command. */
export interface Surroundings {
  readonly terminal: Terminal;
  /** Runs a command and keeps its exit code for the end of the process. */
  readonly finish: (work: () => Promise<number>) => Promise<void>;
  /** `sluiced run`: it also needs the process's clock, signals and environment. */
  readonly runDaemon: (options: CommonOptions) => Promise<number>;
}

/** For pages and completions, which read the commands and run none. */
const nowhere: Surroundings = {
  terminal: { out() {}, err() {} },
  finish: async () => {},
  runDaemon: async () => 0,
};

/**
 * Every command of `sluiced` with its options and help, ready to parse. Each command's own code is loaded when it is called:
 * `sluiced --version` must not wait for what it does not use.
 */
export function buildProgram(surroundings = nowhere): Command {
  const program = new Command('sluiced')
    .description(
      "Puts a node's rule bundle into its kernel, checks health and puts the old rules back when health fails.",
    )
    .version(version)
    .configureHelp({ sortSubcommands: false })
    .exitOverride();
  examples(
    program,
    [
      'sluiced preflight /srv/rules --node node-a',
      'sluiced apply /srv/release --dry-run',
      'sluiced run -c /etc/sluice/sluiced.yaml',
      'sluiced status',
    ],
    exitLine([0, 1, 2, 3, 4, 5]),
  );
  applying(program, surroundings);
  inspecting(program, surroundings);
  undoing(program, surroundings);
  deciding(program, surroundings);
  vouching(program, surroundings);
  shellCommands(program, { '--node': ([dir]) => nodesIn(dir) }, (text) => surroundings.terminal.out(text));
  return program;
}

/** The options of every command: which node this is, where its state is kept, and how it prints. */
function onNode(command: Command, format = outputOption()): Command {
  return command
    .option('-c, --config <FILE>', 'the config (default: /etc/sluice/sluiced.yaml)')
    .option('--node <NAME>', "the node's name in the bundle; wins over the config")
    .option('--state <DIR>', 'the state directory; wins over the config')
    .addOption(format);
}

const signatures = (): Option =>
  new Option('--signatures <POLICY>', 'whether the bundle must be a signed release; wins over the config').choices([
    'required',
    'none',
  ]);

function applying(program: Command, { terminal, finish, runDaemon }: Surroundings): void {
  examples(onNode(program.command('preflight').argument('[DIR]', 'a bundle directory; the one of the config')), [
    'sluiced preflight',
    'sluiced preflight /srv/rules --node node-a --signatures none',
  ])
    .summary('say whether this node can run a bundle')
    .description(
      'Looks at tools, modules, sysctls, other owners of rules, address clashes and signatures. Problems come first; each line ends in what to do. Exit code 3 when the node cannot run the bundle.',
    )
    .addOption(signatures())
    .option('-v, --verbose', 'also list what is good')
    .action((dir: string | undefined, options) =>
      finish(async () => (await import('./commands/preflight.ts')).preflight(dir, options, terminal)),
    );
  examples(onNode(program.command('apply').argument('<DIR>', 'the bundle directory')), [
    'sluiced apply /srv/release',
    'sluiced apply rendered --node node-a --signatures none --dry-run     # exit code 1 when something would change',
    'sluiced apply rendered --node node-a --signatures none',
  ])
    .summary('put a bundle into the kernel once')
    .description("Puts the node's part of a bundle into the kernel once, and the old rules back when the probes fail.")
    .option('--dry-run', 'show what would be done; exit code 1 when something would')
    .addOption(signatures())
    .option('--allow-partial', 'take a bundle whose input did not name every Service')
    .option('--ignore-waves', "apply a release though this node's wave is not open")
    .option('-v, --verbose', 'say what is done on the way')
    .action((dir: string, options) =>
      finish(async () => (await import('./commands/apply.ts')).apply(dir, options, terminal)),
    );
  examples(onNode(program.command('import').argument('<FILE>', 'an archive that `sluice pack` wrote')), [
    'sluiced import /media/stick/node-a.tar.zst',
    'sluiced import node-a.tar.zst && sluiced apply /etc/sluice/rendered      # where no daemon runs',
  ])
    .summary('place a release that came as an archive where the daemon looks')
    .description(
      'Checks an archive as the daemon checks releases, and makes it what the bundle directory of the config is, at once.',
    )
    .action((file: string, options) =>
      finish(async () => (await import('./commands/import.ts')).importArchive(file, options, terminal)),
    );
  examples(withLog(onNode(program.command('boot'))), ['sluiced boot -c /etc/sluice/sluiced.yaml'])
    .summary('put the confirmed rules back after a boot')
    .description(
      'Loads the last confirmed generation, or the one before it when that fails. Needs no network; exit code 4 for an older one.',
    )
    .action((options) => finish(async () => (await import('./commands/boot.ts')).boot(options, terminal)));
  examples(withLog(onNode(program.command('run'))), [
    'sluiced run',
    'sluiced run -c /etc/sluice/sluiced.yaml --log-format json --log-level warning',
    'systemctl kill --kill-whom=main --signal=SIGUSR1 sluiced     # one level more detail; SIGUSR2 one less',
  ])
    .summary('watch a bundle directory and apply complete bundles')
    .description(
      'Watches the bundle directory of the config and applies complete bundles. SIGHUP looks at once, SIGTERM ends, SIGUSR1 makes the log more detailed by one level, SIGUSR2 less.',
    )
    .option('--no-rehearse', 'load nothing into a scratch network namespace first; the same as `rehearse: off`')
    .action((options) => finish(() => runDaemon(options)));
  examples(program.command('rehearse').requiredOption('--stdin', 'the request, and the answer to it'), [
    'systemctl start sluiced-rehearse.socket        # which runs `sluiced rehearse --stdin` for each connection',
  ])
    .summary('load the rules of one request where no packet meets them')
    .description(
      'The far end of a rehearsal: loads one request into the network namespace that it stands in, which must lead nowhere. For sluiced-rehearse@.service.',
    )
    .addOption(outputOption())
    .action((options) => finish(async () => (await import('./commands/rehearse.ts')).rehearse(options, terminal)));
}

function inspecting(program: Command, { terminal, finish }: Surroundings): void {
  examples(onNode(program.command('status')), ['sluiced status', "sluiced status -o json | jq -r '.version'"])
    .summary('say what stands, and how the daemon is')
    .description(
      'Says which generation is confirmed, whether the kernel holds it, what is quarantined, and how the daemon is. Exit code 5 when held, 1 when the kernel differs, the daemon is not healthy or an alarm is open.',
    )
    .action((options) => finish(async () => (await import('./commands/inspect.ts')).status(options, terminal)));
  examples(
    onNode(program.command('show').argument('<SERVICE>', 'namespace/name')),
    ['sluiced show shop/web', "sluiced show shop/web -o json | jq -r '.rules[].lines[].text'"],
    'Exit codes: 0 the kernel holds what the generation has of it, 1 it differs or there is no such Service, 2 problem in the usage, 3 not root.',
  )
    .summary('print what the kernel holds of a Service, beside its files')
    .description(
      "Prints a Service's files in the bundle directory, and beside them its chains, rules and virtual servers in the kernel, with the names that the kernel has. A line that only the kernel has begins with +, one that only the active generation has with -, a real server that drains with ~.",
    )
    .action((service: string, options) =>
      finish(async () => (await import('./commands/show.ts')).show(service, options, terminal)),
    );
  examples(onNode(program.command('observe'), reportOption()), [
    'sluiced observe -o host.yaml',
    'ssh node-a sluiced observe -o - > host.yaml && sluice show --node node-a --host host.yaml',
  ])
    .summary('write what only this machine knows, for `sluice show --host`')
    .description(
      'Writes the addresses of the machine, its kernel and what else decides which rules a bundle becomes here. It reads the host, changes nothing and works beside the daemon. Exit code 3 for users other than root.',
    )
    .requiredOption('-o, --output <FILE>', 'where to write; - is standard output')
    .action((options) => finish(async () => (await import('./commands/observe.ts')).observe(options, terminal)));
  examples(onNode(program.command('history')), ['sluiced history', 'sluiced history | tail -n 5'])
    .summary('say what happened on this node')
    .description('Lists what happened on this node, the newest last, each with the versions that it led from and to.')
    .action((options) => finish(async () => (await import('./commands/inspect.ts')).history(options, terminal)));
  versionCommand(
    program,
    () => versionSource(process),
    (text) => terminal.out(text),
  );
}

function undoing(program: Command, { terminal, finish }: Surroundings): void {
  examples(
    onNode(
      program
        .command('rollback')
        .argument(
          '[TARGET]',
          'a generation, a version or how it begins, or a checkpoint; the generation before the active one',
        ),
    ),
    [
      'sluiced rollback                             # to the generation before; says what changes and asks',
      'sluiced rollback 4f1c09ab --yes              # to a version, from a script',
      'sluiced rollback before-1.31 --dry-run       # what going back to a checkpoint would change',
      'sluiced rollback 0 --remove-all-services     # to the rules from before Sluice',
    ],
    'Exit codes: 0 done, 1 the answer was no, or --dry-run found a change, 2 problem in the input or usage, 3 refused by the node, 5 held.',
  )
    .summary('put an earlier generation back')
    .description(
      'Says what an earlier generation changes, asks, puts it back with the newest endpoints, and blocks the version that it leaves. Goes through the daemon where one runs; a release on probation is cancelled first.',
    )
    .addOption(
      new Option('--endpoints <WHICH>', 'newest: keep the endpoints of now; old: restore those of the target').choices([
        'newest',
        'old',
      ]),
    )
    .option('--remove-all-services', 'allow generation 0 as target: the rules from before Sluice')
    .option('--dry-run', 'say what would change, and change nothing')
    .option('--yes', 'do not ask; needed where there is no terminal')
    .action((to: string | undefined, options) =>
      finish(async () => (await import('./commands/rollback.ts')).rollback(to, options, terminal)),
    );
  examples(onNode(program.command('checkpoint').argument('[NAME]', 'the name of a new checkpoint')), [
    'sluiced checkpoint before-1.31        # keeps the active generation',
    'sluiced checkpoint                    # lists them',
    'sluiced checkpoint --remove before-1.31',
  ])
    .summary('keep the active generation under a name')
    .description(
      'Keeps the active generation, with its endpoints of now, until the checkpoint is removed; without a name lists checkpoints. The last 10 confirmed generations are kept anyway.',
    )
    .option('--remove <NAME>', 'remove a checkpoint')
    .action((name: string | undefined, options) =>
      finish(async () => (await import('./commands/checkpoint.ts')).checkpoint(name, options, terminal)),
    );
  examples(onNode(program.command('recover')), ['sluiced recover && systemctl start sluiced'])
    .summary('take over rules of Sluice whose state directory was lost')
    .description(
      'For a node that lost its state directory while its rules are in the kernel: what the kernel holds is the generation that stands from now on. No rule changes. Exit code 3 when the node cannot.',
    )
    .action((options) => finish(async () => (await import('./commands/recover.ts')).recover(options, terminal)));
  examples(onNode(program.command('backend').argument('[STORE]', 'nft or legacy')), [
    'sluiced backend               # which store the rules are in, and what others have in both',
    'systemctl stop sluiced && sluiced backend nft && systemctl start sluiced',
  ])
    .summary('say which rule store is used, or move the rules')
    .description(
      'Says which rule store holds the rules, nf_tables or legacy, and what others have in both; or moves the rules, which serve all the time. Exit code 1 when something speaks against the store in use.',
    )
    .action((wanted: string | undefined, options) =>
      finish(async () => (await import('./commands/backend.ts')).backend(wanted, options, terminal)),
    );
  examples(onNode(program.command('cleanup')), ['sluiced cleanup'])
    .summary('take every rule of Sluice out of the kernel')
    .description(
      'Takes every rule of Sluice out of the kernel and puts sysctls back. Rules of others stay as they are.',
    )
    .action((options) => finish(async () => (await import('./commands/cleanup.ts')).cleanup(options, terminal)));
}

/** What lets others believe what this node says of itself. */
function vouching(program: Command, { terminal, finish }: Surroundings): void {
  examples(onNode(program.command('keygen')), ['sluiced keygen', 'sluiced keygen --renew'])
    .summary('make the key that signs receipts')
    .description(
      'Makes the key of this node, which signs its receipts, and prints the line for allowed_receipts. A key that is there stays.',
    )
    .option('--renew', 'make a new key in place of the one that is there')
    .action((options) => finish(async () => (await import('./commands/receipts.ts')).keygen(options, terminal)));
}

/** What an operator says to a release on probation. */
function deciding(program: Command, { terminal, finish }: Surroundings): void {
  const decide = async (decision: Decision, options: CommonOptions): Promise<void> =>
    finish(async () => (await import('./commands/decide.ts')).decide(decision, options, terminal));
  examples(onNode(program.command('confirm')), [
    'sluiced confirm',
    'sluiced confirm --token 5be0c1d2     # only the probation that showed this token',
  ])
    .summary('confirm the release on probation')
    .description(
      'Confirms the release on probation, whatever time is left. Probes that fail still roll it back. `sluiced status` shows its token.',
    )
    .option('--token <TOKEN>', 'refuse when another release is on probation by now')
    .action((options) => decide({ kind: 'confirm' }, options));
  examples(onNode(program.command('cancel')), ['sluiced cancel'])
    .summary('roll back the release on probation')
    .description('Rolls back the release on probation and blocks its version.')
    .action((options) => decide({ kind: 'cancel' }, options));
  examples(onNode(program.command('extend').argument('<SECONDS>', 'from now', wholeSeconds)), ['sluiced extend 300'])
    .summary('give the release on probation more time')
    .description('Lets the probation of a release last so many seconds from now.')
    .action((seconds: number, options) => decide({ kind: 'extend', seconds }, options));
}

function wholeSeconds(text: string): number {
  const seconds = Number(text);
  if (/^\d{1,5}$/.test(text) && seconds > 0 && seconds <= 86_400) return seconds;
  throw new InvalidArgumentError('It is no number of seconds from 1 to 86400.');
}
