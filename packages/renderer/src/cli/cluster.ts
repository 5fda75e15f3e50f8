import { examples, reportOption, withLog } from '@sluice/cli';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { collect, notEmpty, run } from './options.ts';

/** The options that say which cluster is read, as whom. */
export function withCluster(command: Command): Command {
  return command
    .option('--kubeconfig <FILE>', 'otherwise KUBECONFIG, ~/.kube/config or the account of the pod', notEmpty)
    .option('--context <NAME>', 'the context of the kubeconfig', notEmpty);
}

/** What is read from a running cluster. */
export function clusterCommands(program: Command): void {
  examples(withCluster(program.command('snapshot')), [
    'sluice snapshot -o snapshot.yaml',
    'sluice snapshot -o - -n shop --context staging',
    'sluice snapshot --redact -o report.yaml',
    'sluice render -f manifests/ --base snapshot.yaml -o rendered',
  ])
    .summary('write what a cluster holds into a file')
    .description(
      'Reads Services, endpoints, Nodes, ServiceCIDRs and the config of kube-proxy from a cluster, for -f and --base.',
    )
    .requiredOption('-o, --output <FILE|DIR|->', 'where to write; a DIR gets a file for each kind', notEmpty)
    .option('-n, --namespace <NS>', 'only Services of this namespace; may be repeated', collect)
    .option('-l, --selector <SELECTOR>', 'only Services with these labels', notEmpty)
    .option('--redact', 'put other names and addresses in their place, for bug reports')
    .addOption(reportOption())
    .action(run(async (options) => (await import('../commands/snapshot.ts')).snapshotCommand(options)));

  const watch = withLog(withCluster(program.command('watch')), { format: 'text', level: 'info' });
  examples(watch, [
    'sluice watch -o /var/lib/sluice-watch/rendered',
    'sluice watch -o rendered --commit --push --listen 127.0.0.1:9780',
    'sluice watch -o /bundle --lease kube-system/sluice --events --listen 0.0.0.0:9780 --log-format json',
  ])
    .summary('keep a directory what a cluster is')
    .description(
      'Follows Services, endpoints and Nodes and writes what changed into a bundle directory, until a signal. What is bad is left out and listed in quarantine.yaml. SIGUSR1 makes the log more detailed by one level, SIGUSR2 less.',
    )
    .requiredOption('-o, --output <DIR>', 'the bundle directory', notEmpty)
    .option('-c, --config <FILE>', 'the SluiceConfig', notEmpty)
    .option('--min-interval <TIME>', 'the least time between two publications', duration, 200)
    .option('--max-delay <TIME>', 'no change waits longer than this', duration, 1_000)
    .option('--listen <ADDRESS:PORT>', 'serve /healthz, /livez and /metrics there', address)
    .option('--lease <NAMESPACE/NAME>', 'write only while holding this Lease, of several that run', leaseName)
    .option('--events', 'say on an object why it is in quarantine')
    .option('--commit', 'make a Git commit of each settled change')
    .addOption(
      new Option('--push', 'as --commit, and push it; over what others pushed, it is laid').implies({ commit: true }),
    )
    .addOption(reportOption())
    .action(run(async (options) => (await import('../commands/watch/watch.ts')).watchCommand(options)));
}

const units = { ms: 1, s: 1_000, m: 60_000 } as const;

/** `200ms`, `1s`. */
function duration(text: string): number {
  const [, number, unit] = /^(\d{1,6})(ms|s|m)$/.exec(text) ?? [];
  if (number === undefined) throw new InvalidArgumentError('Write it as 200ms, 1s or 2m.');
  return Number(number) * units[unit as keyof typeof units];
}

function address(text: string): string {
  const [, port] = /^(?:\[[0-9a-f:.]+\]|[^:\s]+):(\d{1,5})$/i.exec(text) ?? [];
  if (port === undefined || Number(port) > 65_535) throw new InvalidArgumentError('Write it as 127.0.0.1:9780.');
  return text;
}

function leaseName(text: string): string {
  if (!/^[^/\s]+\/[^/\s]+$/.test(text)) throw new InvalidArgumentError('Write it as namespace/name.');
  return text;
}
