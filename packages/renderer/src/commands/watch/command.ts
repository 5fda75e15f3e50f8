import { examples, reportOption, withLog, pathOption } from '@sluice/cli';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { run } from '../options/action.ts';
import { withCluster } from '../options/options.ts';
import { notEmpty } from '../options/values.ts';

/** Adds `sluice watch`. */
export function addWatch(program: Command): void {
  const watch = withLog(withCluster(program.command('watch')), { format: 'text', level: 'info' });
  examples(watch, [
    'sluice watch -o /var/lib/sluice-watch/rendered',
    'sluice watch -o rendered --commit --push --listen 127.0.0.1:9780',
    'sluice watch --node node-a -o /run/sluice-watch/rendered --kubeconfig /etc/sluice/kubeconfig',
    'sluice watch -o /bundle --lease kube-system/sluice --events --listen 0.0.0.0:9780 --log-format json',
  ])
    .summary('render continuously from a running cluster')
    .description(
      'Watches Services, endpoints and Nodes and writes changes to a bundle directory until it is stopped by a signal. Objects that cannot be rendered are left out and listed in quarantine.yaml. SIGUSR1 raises the log level by one, SIGUSR2 lowers it.',
    )
    .addOption(pathOption('DIR', 'the bundle directory'))
    .option('-c, --config <FILE>', 'the SluiceConfig', notEmpty)
    .addOption(
      new Option(
        '--node <NAME>',
        'render for this node alone, from what kube-proxy watches; for a watch on each node, beside sluiced',
      )
        .argParser(nodeName)
        .conflicts(['commit', 'push', 'lease']),
    )
    .option('--min-interval <TIME>', 'the minimum time between two publications', duration, 200)
    .option('--max-delay <TIME>', 'the maximum time until a change is published', duration, 1_000)
    .option('--listen <ADDRESS:PORT>', 'serve /healthz, /livez and /metrics on this address', address)
    .option('--lease <NAMESPACE/NAME>', 'write only while holding this Lease, for several replicas', leaseName)
    .option('--events', 'emit an Event on each quarantined object with the reason')
    .option(
      '--removal-hold <TIME>',
      'hold a change that takes away most Services or endpoints this long; 0s: not at all (default: 10m)',
      duration,
    )
    .option('--removal-share <SHARE>', 'what takes away more than this share of all is held (default: 0.5)', share)
    .option('--removal-least <N>', 'and at least so many (default: 10)', count)
    .option(
      '--accept-removal',
      'publish at once what the first look at the cluster takes away; later removals are held',
    )
    .option('--commit', 'make a Git commit for each burst of changes')
    .addOption(
      new Option('--push', 'as --commit, and push; rebase onto the remote branch before pushing').implies({
        commit: true,
      }),
    )
    .addOption(reportOption())
    .action(run(async (options) => (await import('./watch.ts')).watchCommand(options)));
}

const units = { ms: 1, s: 1_000, m: 60_000 } as const;

/** `200ms`, `1s`. */
function duration(text: string): number {
  const [, number, unit] = /^(\d{1,6})(ms|s|m)$/.exec(text) ?? [];
  if (number === undefined) throw new InvalidArgumentError('Write it as 200ms, 1s or 2m.');
  return Number(number) * units[unit as keyof typeof units];
}

function share(text: string): number {
  if (!/^(?:0(?:\.\d{1,6})?|1(?:\.0{1,6})?)$/.test(text))
    throw new InvalidArgumentError('Write a number from 0 to 1, as 0.5.');
  return Number(text);
}

function count(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('Write a whole number from 1 on.');
  return Number(text);
}

function address(text: string): string {
  const [, port] = /^(?:\[[0-9a-f:.]+\]|[^:\s]+):(\d{1,5})$/i.exec(text) ?? [];
  if (port === undefined || Number(port) > 65_535) throw new InvalidArgumentError('Write it as 127.0.0.1:9780.');
  return text;
}

/** A subdomain of DNS, as the API server demands: other texts could mean more in a selector. */
function nodeName(text: string): string {
  if (!/^[a-z0-9](?:[-.a-z0-9]{0,251}[a-z0-9])?$/.test(text))
    throw new InvalidArgumentError('It is not the name of a Node.');
  return text;
}

function leaseName(text: string): string {
  if (!/^[^/\s]+\/[^/\s]+$/.test(text)) throw new InvalidArgumentError('Write it as namespace/name.');
  return text;
}
