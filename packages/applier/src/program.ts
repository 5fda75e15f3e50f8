import { examples, exitLine, outputOption, reportOption, shellCommands, versionCommand, withLog } from '@sluice/cli';
import { Command, InvalidArgumentError, Option } from 'commander';
import { nodesIn } from './commands/options/names.ts';
import type { CommonOptions, Terminal } from './commands/terminal/terminal.ts';
import type { Decision } from './ports/operator.ts';
import { version, versionSource } from './version.ts';

/** What the process provides to its commands. */
export interface CommandContext {
  readonly terminal: Terminal;
  /** Runs a command and sets the process's exit code from its result. */
  readonly finish: (work: () => Promise<number>) => Promise<void>;
  /** Runs `sluiced run`, which also needs the process's clock, signals and environment. */
  readonly runDaemon: (options: CommonOptions) => Promise<number>;
}

/** For man pages and shell completion, which read the commands and run none. */
const noContext: CommandContext = {
  terminal: { out() {}, err() {} },
  finish: async () => {},
  runDaemon: async () => 0,
};

/**
 * Every command of `sluiced` with its options and help, ready to parse. A command's code is loaded when it runs, so that `sluiced
 * --version` starts fast.
 */
export function buildProgram(context = noContext): Command {
  const program = new Command('sluiced')
    .description("Applies a node's rule bundle to its kernel, checks health, and rolls back when a probe fails.")
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
  applyCommands(program, context);
  inspectCommands(program, context);
  rollbackCommands(program, context);
  probationCommands(program, context);
  receiptCommands(program, context);
  shellCommands(program, { '--node': ([dir]) => nodesIn(dir) }, (text) => context.terminal.out(text));
  return program;
}

/** The options that every command has: node, config, state directory, output format. */
function onNode(command: Command, format = outputOption()): Command {
  return command
    .option('-c, --config <FILE>', 'the config file (default: /etc/sluice/sluiced.yaml)')
    .option('--node <NAME>', "the node's name in the bundle; overrides the config")
    .option('--state <DIR>', 'the state directory; overrides the config')
    .addOption(format);
}

const signatures = (): Option =>
  new Option('--signatures <POLICY>', 'whether the bundle must be a signed release; overrides the config').choices([
    'required',
    'none',
  ]);

function applyCommands(program: Command, { terminal, finish, runDaemon }: CommandContext): void {
  examples(onNode(program.command('preflight').argument('[DIR]', 'the bundle directory (default: from the config)')), [
    'sluiced preflight',
    'sluiced preflight /srv/rules --node node-a --signatures none',
  ])
    .summary('check whether this node can run a bundle')
    .description(
      'Checks tools, kernel modules, sysctls, other owners of rules, address clashes and signatures. Problems are listed first; each line ends with the action to take. Exit code 3 when the node cannot run the bundle.',
    )
    .addOption(signatures())
    .option('-v, --verbose', 'also list the checks that passed')
    .action((dir: string | undefined, options) =>
      finish(async () => (await import('./commands/preflight/preflight.ts')).preflight(dir, options, terminal)),
    );
  examples(onNode(program.command('apply').argument('<DIR>', 'the bundle directory')), [
    'sluiced apply /srv/release',
    'sluiced apply rendered --node node-a --signatures none --dry-run     # exit code 1 when something would change',
    'sluiced apply rendered --node node-a --signatures none',
  ])
    .summary('apply a bundle once')
    .description("Applies the node's part of a bundle once, and rolls back when a probe fails.")
    .option('--dry-run', 'show the changes without making them; exit code 1 when there are any')
    .addOption(signatures())
    .option('--allow-partial', 'accept a bundle that was rendered from incomplete input')
    .option('--ignore-waves', "apply a release before this node's wave is open")
    .option('-v, --verbose', 'print each step')
    .action((dir: string, options) =>
      finish(async () => (await import('./commands/apply/apply.ts')).apply(dir, options, terminal)),
    );
  examples(onNode(program.command('import').argument('<FILE>', 'an archive that `sluice pack` wrote')), [
    'sluiced import /media/stick/node-a.tar.zst',
    'sluiced import node-a.tar.zst && sluiced apply /etc/sluice/rendered      # on a node without a daemon',
  ])
    .summary('install a release archive into the bundle directory')
    .description(
      'Checks a release archive as the daemon checks releases, and replaces the bundle directory of the config with it atomically.',
    )
    .action((file: string, options) =>
      finish(async () => (await import('./commands/import/import.ts')).importArchive(file, options, terminal)),
    );
  examples(withLog(onNode(program.command('boot'))), ['sluiced boot -c /etc/sluice/sluiced.yaml'])
    .summary('restore the confirmed rules after a boot')
    .description(
      'Loads the last confirmed generation, or the previous one when that fails. Needs no network. Exit code 4 when an older generation was loaded.',
    )
    .action((options) => finish(async () => (await import('./commands/boot/boot.ts')).boot(options, terminal)));
  examples(withLog(onNode(program.command('run'))), [
    'sluiced run',
    'sluiced run -c /etc/sluice/sluiced.yaml --log-format json --log-level warning',
    'systemctl kill --kill-whom=main --signal=SIGUSR1 sluiced     # one log level more; SIGUSR2: one less',
  ])
    .summary('watch a bundle directory and apply complete bundles')
    .description(
      'Watches the bundle directory of the config and applies complete bundles. SIGHUP checks the directory at once, SIGTERM stops the daemon, SIGUSR1 raises the log level by one, SIGUSR2 lowers it.',
    )
    .option('--no-rehearse', 'do not load new rules into a scratch network namespace first; same as `rehearse: off`')
    .action((options) => finish(() => runDaemon(options)));
  examples(
    program.command('rehearse').requiredOption('--stdin', 'read the request from standard input, and answer there'),
    ['systemctl start sluiced-rehearse.socket        # which runs `sluiced rehearse --stdin` for each connection'],
  )
    .summary('load the rules of one request in a scratch namespace')
    .description(
      'Serves one rehearsal: loads the rules of the request into the current network namespace, which must be isolated. Used by sluiced-rehearse@.service.',
    )
    .addOption(outputOption())
    .action((options) =>
      finish(async () => (await import('./commands/rehearse/rehearse.ts')).rehearse(options, terminal)),
    );
}

function inspectCommands(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('status')), ['sluiced status', "sluiced status -o json | jq -r '.version'"])
    .summary('show the active generation and the health of the daemon')
    .description(
      'Shows the confirmed generation, whether the kernel holds it, quarantined versions, and the health of the daemon. Exit code 5 when the node is halted; 1 when the kernel differs, the daemon is unhealthy or an alarm is raised.',
    )
    .action((options) => finish(async () => (await import('./commands/status/status.ts')).status(options, terminal)));
  examples(
    onNode(program.command('show').argument('<SERVICE>', 'namespace/name')),
    ['sluiced show shop/web', "sluiced show shop/web -o json | jq -r '.rules[].lines[].text'"],
    'Exit codes: 0 the kernel matches the active generation, 1 it differs or the Service does not exist, 2 usage error, 3 not root.',
  )
    .summary("print a Service's rules in the kernel and its files")
    .description(
      "Prints a Service's files in the bundle directory, followed by its chains, rules and virtual servers in the kernel under the kernel's names. Lines only in the kernel begin with +, lines only in the active generation with -, draining real servers with ~.",
    )
    .action((service: string, options) =>
      finish(async () => (await import('./commands/show/show.ts')).show(service, options, terminal)),
    );
  examples(onNode(program.command('observe'), reportOption()), [
    'sluiced observe -o host.yaml',
    'ssh node-a sluiced observe -o - > host.yaml && sluice show --node node-a --host host.yaml',
  ])
    .summary('write the facts of this machine for `sluice show --host`')
    .description(
      'Writes the addresses of the machine, its kernel version and everything else that affects how a bundle becomes rules here. Reads the host only, changes nothing, and can run beside the daemon. Exit code 3 unless run as root.',
    )
    .requiredOption('-o, --output <FILE>', 'the file to write; - for standard output')
    .action((options) =>
      finish(async () => (await import('./commands/observe/observe.ts')).observe(options, terminal)),
    );
  examples(onNode(program.command('history')), ['sluiced history', 'sluiced history | tail -n 5'])
    .summary('list the changes on this node')
    .description('Lists the changes on this node, newest last, each with the version before and after it.')
    .action((options) => finish(async () => (await import('./commands/status/status.ts')).history(options, terminal)));
  versionCommand(
    program,
    () => versionSource(process),
    (text) => terminal.out(text),
  );
}

function rollbackCommands(program: Command, { terminal, finish }: CommandContext): void {
  examples(
    onNode(
      program
        .command('rollback')
        .argument(
          '[TARGET]',
          'a generation, a version or a prefix of one, or a checkpoint (default: the previous generation)',
        ),
    ),
    [
      'sluiced rollback                             # to the previous generation; shows the changes and asks',
      'sluiced rollback 4f1c09ab --yes              # to a version, from a script',
      'sluiced rollback before-1.31 --dry-run       # show what a rollback to a checkpoint would change',
      'sluiced rollback 0 --remove-all-services     # to the rules this node had before Sluice',
    ],
    'Exit codes: 0 rolled back, 1 declined, or --dry-run found a change, 2 input or usage error, 3 refused by the node, 5 node halted.',
  )
    .summary('roll back to an earlier generation')
    .description(
      'Shows what an earlier generation changes, asks for confirmation, rolls back to it with the newest endpoints, and blocks the version it replaces. Goes through the daemon when one is running; a release on probation is cancelled first.',
    )
    .addOption(
      new Option('--endpoints <WHICH>', 'newest: keep the current endpoints; old: restore those of the target').choices(
        ['newest', 'old'],
      ),
    )
    .option('--remove-all-services', 'allow generation 0 as target: the rules this node had before Sluice')
    .option('--dry-run', 'show the changes without making them')
    .option('--yes', 'do not ask for confirmation; required without a terminal')
    .action((to: string | undefined, options) =>
      finish(async () => (await import('./commands/rollback/rollback.ts')).rollback(to, options, terminal)),
    );
  examples(onNode(program.command('checkpoint').argument('[NAME]', 'the name of a new checkpoint')), [
    'sluiced checkpoint before-1.31        # keeps the active generation',
    'sluiced checkpoint                    # lists them',
    'sluiced checkpoint --remove before-1.31',
  ])
    .summary('keep the active generation under a name')
    .description(
      'Keeps the active generation, with its current endpoints, until the checkpoint is removed. Without a name, lists checkpoints. The last 10 confirmed generations are always kept.',
    )
    .option('--remove <NAME>', 'remove a checkpoint')
    .action((name: string | undefined, options) =>
      finish(async () => (await import('./commands/checkpoint/checkpoint.ts')).checkpoint(name, options, terminal)),
    );
  examples(onNode(program.command('recover')), ['sluiced recover && systemctl start sluiced'])
    .summary('adopt the rules in the kernel after the state directory was lost')
    .description(
      'For a node whose state directory was lost while its rules are in the kernel: adopts the rules in the kernel as the active generation. Changes no rule. Exit code 3 when that is not possible.',
    )
    .action((options) =>
      finish(async () => (await import('./commands/recover/recover.ts')).recover(options, terminal)),
    );
  examples(onNode(program.command('backend').argument('[STORE]', 'nft or legacy')), [
    'sluiced backend               # shows the rule store in use, and foreign rules in both stores',
    'systemctl stop sluiced && sluiced backend nft && systemctl start sluiced',
  ])
    .summary('show the rule store in use, or move the rules')
    .description(
      'Shows which rule store holds the rules, nf_tables or legacy, and the foreign rules in both; or moves the rules to the other store without interrupting traffic. Exit code 1 when the store in use looks wrong.',
    )
    .action((wanted: string | undefined, options) =>
      finish(async () => (await import('./commands/backend/backend.ts')).backend(wanted, options, terminal)),
    );
  examples(onNode(program.command('cleanup')), ['sluiced cleanup'])
    .summary('remove all rules of Sluice from the kernel')
    .description('Removes all rules of Sluice from the kernel and restores the sysctls. Foreign rules are not changed.')
    .action((options) =>
      finish(async () => (await import('./commands/cleanup/cleanup.ts')).cleanup(options, terminal)),
    );
}

/** The key for signed receipts. */
function receiptCommands(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('keygen')), ['sluiced keygen', 'sluiced keygen --renew'])
    .summary('make the key that signs receipts')
    .description(
      'Creates the key that signs the receipts of this node, and prints its line for allowed_receipts. An existing key is kept.',
    )
    .option('--renew', 'replace an existing key')
    .action((options) =>
      finish(async () => (await import('./commands/session/receipts.ts')).keygen(options, terminal)),
    );
}

/** What an operator decides about a release on probation. */
function probationCommands(program: Command, { terminal, finish }: CommandContext): void {
  const decide = async (decision: Decision, options: CommonOptions): Promise<void> =>
    finish(async () => (await import('./commands/decide/decide.ts')).decide(decision, options, terminal));
  examples(onNode(program.command('confirm')), [
    'sluiced confirm',
    'sluiced confirm --token 5be0c1d2     # only while the release of this token is on probation',
  ])
    .summary('confirm the release on probation')
    .description(
      'Confirms the release on probation without waiting for the remaining time. Failing probes still roll it back. `sluiced status` shows its token.',
    )
    .option('--token <TOKEN>', 'refuse if another release is on probation by now')
    .action((options) => decide({ kind: 'confirm' }, options));
  examples(onNode(program.command('cancel')), ['sluiced cancel'])
    .summary('roll back the release on probation')
    .description('Rolls back the release on probation and blocks its version.')
    .action((options) => decide({ kind: 'cancel' }, options));
  examples(onNode(program.command('extend').argument('<SECONDS>', 'from now', wholeSeconds)), ['sluiced extend 300'])
    .summary('extend the probation of a release')
    .description('Sets the remaining probation of a release to this many seconds from now.')
    .action((seconds: number, options) => decide({ kind: 'extend', seconds }, options));
}

function wholeSeconds(text: string): number {
  const seconds = Number(text);
  if (/^\d{1,5}$/.test(text) && seconds > 0 && seconds <= 86_400) return seconds;
  throw new InvalidArgumentError('It must be a whole number of seconds from 1 to 86400.');
}
