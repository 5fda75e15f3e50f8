import { examples, outputOption, withLog } from '@sluice/cli';
import { type Command, Option } from 'commander';
import { type CommandContext, verb } from '../options/context.ts';
import { durationOption, onNode, signaturesOption } from '../options/options.ts';

/** The options and help of the verbs with which operators apply bundles. */

/** Adds `sluiced preflight`. */
export function addPreflight(program: Command, context: CommandContext): void {
  examples(onNode(program.command('preflight').argument('[DIR]', 'the bundle directory (default: from the config)')), [
    'sluiced preflight',
    'sluiced preflight /srv/rules --node node-a --signatures none',
  ])
    .summary('check whether this node can run a bundle')
    .description(
      'Checks tools, kernel modules, sysctls, other owners of rules, address clashes and signatures. Problems are listed first; each line ends with the action to take. Exit code 3 when the node cannot run the bundle.',
    )
    .addOption(signaturesOption())
    .option('-v, --verbose', 'also list the checks that passed')
    .action(verb(context, async () => (await import('../preflight/preflight.ts')).preflight));
}

/** Adds `sluiced apply`. */
export function addApply(program: Command, context: CommandContext): void {
  examples(onNode(program.command('apply').argument('<DIR>', 'the bundle directory')), [
    'sluiced apply /srv/release',
    'sluiced apply rendered --node node-a --signatures none --dry-run     # exit code 1 when something would change',
    'sluiced apply rendered --node node-a --signatures none',
  ])
    .summary('apply a bundle once')
    .description("Applies the node's part of a bundle once, and rolls back when a probe fails.")
    .option('--dry-run', 'show the changes without making them; exit code 1 when there are any')
    .addOption(signaturesOption())
    .option('--allow-partial', 'accept a bundle that was rendered from incomplete input')
    .option('--ignore-waves', "apply a release before this node's wave is open")
    .option('-v, --verbose', 'print each step')
    .action(verb(context, async () => (await import('../apply/apply.ts')).apply));
}

/** Adds `sluiced import`. */
export function addImport(program: Command, context: CommandContext): void {
  examples(onNode(program.command('import').argument('<FILE>', 'an archive that `sluice pack` wrote')), [
    'sluiced import /media/stick/node-a.tar.zst',
    'sluiced import node-a.tar.zst && sluiced apply /etc/sluice/rendered      # on a node without a daemon',
  ])
    .summary('install a release archive into the bundle directory')
    .description(
      'Checks a release archive as the daemon checks releases, and replaces the bundle directory of the config with it atomically.',
    )
    .action(verb(context, async () => (await import('../import/import.ts')).importArchive));
}

/** Adds `sluiced run`. */
export function addRun(program: Command, { finish, runDaemon }: CommandContext): void {
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
}

/** Adds `sluiced boot`. */
export function addBoot(program: Command, context: CommandContext): void {
  examples(withLog(onNode(program.command('boot'))), ['sluiced boot -c /etc/sluice/sluiced.yaml'])
    .summary('restore the confirmed rules after a boot')
    .description(
      'Loads the last confirmed generation, or the previous one when that fails. Needs no network. Exit code 4 when an older generation was loaded.',
    )
    .action(verb(context, async () => (await import('../boot/boot.ts')).boot));
}

/** Adds `sluiced rehearse`. */
export function addRehearse(program: Command, context: CommandContext): void {
  examples(
    program.command('rehearse').requiredOption('--stdin', 'read the request from standard input, and answer there'),
    ['systemctl start sluiced-rehearse.socket        # which runs `sluiced rehearse --stdin` for each connection'],
  )
    .summary('load the rules of one request in a scratch namespace')
    .description(
      'Serves one rehearsal: loads the rules of the request into the current network namespace, which must be isolated. Used by sluiced-rehearse@.service.',
    )
    .addOption(outputOption())
    .action(verb(context, async () => (await import('../rehearse/rehearse.ts')).rehearse));
}

/** Adds `sluiced fetch`. */
export function addFetch(program: Command, { environment, terminal, finish }: CommandContext): void {
  examples(withLog(onNode(program.command('fetch'))), [
    'sluiced fetch --now',
    'systemctl enable --now sluiced-fetch.service        # which runs `sluiced fetch` as user sluice-fetch',
    'runuser -u sluice-fetch -- sluiced fetch --once',
  ])
    .summary('fetch releases from the source of the config')
    .description(
      'Asks the source of the config at its interval, and places each new release that is signed for this node where the daemon looks for it. Changes no rule, and needs no root. Ends at once where the config has no source.',
    )
    .addOption(new Option('--once', 'fetch once, and print the result').conflicts('now'))
    .option('--now', 'let the running process fetch at once, and print the result; needs root')
    .addOption(durationOption('--timeout <TIME>', 'how long --now waits at most, such as 90s, 2m or 1h (default: 2m)'))
    .action((options) =>
      finish(async () => (await import('../fetch/fetch.ts')).fetchCommand(options, terminal, environment)),
    );
}
