import { examples, formats, outputOption, pathOption, reportOption, withLog } from '@sluice/cli';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { run } from '../options/action.ts';
import { withCluster, withInput } from '../options/options.ts';
import { collect, notEmpty, upTo } from '../options/values.ts';

/** The options and help of the verbs with which operators render. */

export function addInit(program: Command): void {
  examples(program.command('init'), [
    'sluice init',
    'kubectl get configmap,daemonset kube-proxy -n kube-system -o yaml | sluice init -f -',
  ])
    .summary('write a commented sluice.yaml')
    .description(
      'Writes a commented config. Given what says how kube-proxy runs, it takes over its settings and version, and the networks of the cluster.',
    )
    .argument('[FILE]', 'the config', 'sluice.yaml')
    .option(
      '-f, --filename <FILE|->',
      "kube-proxy's ConfigMap, DaemonSet or Pod, the config or Nodes of k3s or RKE2, or kubeadm's configuration",
      notEmpty,
    )
    .option('--force', 'overwrite an existing file')
    .addOption(outputOption())
    .action(run(async (options, file) => (await import('../init/init.ts')).initCommand(file, options)));
}

export function addRender(program: Command): void {
  examples(withCluster(withInput(program.command('render'), 'or a cluster')), [
    'sluice render --from-cluster -o rendered',
    'sluice render -f manifests/ -o rendered',
    'sluice render -f manifests/ -R -c sluice.yaml -o rendered --check     # in CI: exit code 1 if it is out of date',
    'kubectl get services,endpointslices,nodes -A -o yaml > snapshot.yaml',
    'kustomize build . | sluice render -f - --base snapshot.yaml -c sluice.yaml -o rendered',
  ])
    .summary('render the rules of all nodes into a directory')
    .description('Reads Services, endpoints and Nodes and writes the rules of all nodes to a bundle directory.')
    .addOption(pathOption('DIR', 'the bundle directory'))
    .option('--from-cluster', 'read the cluster instead of -f, or as the base of the manifests of -f')
    .option(
      '--accept-removal',
      'with --from-cluster: write DIR although the cluster lacks most of its Services or endpoints',
    )
    .addOption(
      new Option(
        '--quarantine',
        'leave invalid objects out, keep their last good files and list them in quarantine.yaml',
      ).conflicts('strict'),
    )
    .option('-v, --verbose', 'list every object of a repeated problem')
    .option('--check', 'write nothing; report whether DIR is up to date, and print the differences')
    .addOption(reportOption())
    .action(run(async (options) => (await import('../render/render.ts')).renderCommand(options)));
}

export function addValidate(program: Command): void {
  examples(withInput(program.command('validate')), [
    'sluice validate -f manifests/ --strict',
    'helm template shop ./chart | sluice validate -f - -o json',
  ])
    .summary('check manifests without writing')
    .description('Reads the same input as `render` and reports all problems, without writing.')
    .addOption(outputOption())
    .addOption(new Option('--report <FORMAT>', 'the same as -o').choices(formats))
    .option('-v, --verbose', 'list every object of a repeated problem')
    .action(run(async (options) => (await import('../validate/validate.ts')).validateCommand(options)));
}

/** Adds `sluice allocations` and its subcommands. */
export function addAllocations(program: Command): void {
  const allocations = program
    .command('allocations')
    .summary('manage the addresses and ports that Sluice allocated')
    .description(
      'Manages the addresses and ports that Sluice allocated to Services; `render` stores them in allocations/ beside the config.',
    );

  examples(allocations.command('fix'), [
    'git merge origin/main',
    'sluice allocations fix -c sluice.yaml --base-branch origin/main',
  ])
    .summary('resolve duplicate allocations after a merge')
    .description(
      'Where two files allocate the same address or port, gives the allocation that is not on the base branch a new one.',
    )
    .requiredOption('-c, --config <FILE>', 'the SluiceConfig; allocations/ is beside it', notEmpty)
    .requiredOption('--base-branch <REV>', 'the revision whose allocations are kept, such as origin/main', notEmpty)
    .addOption(outputOption())
    .action(run(async (options) => (await import('../allocations/allocations.ts')).fixCommand(options)));

  examples(withInput(allocations.command('manifests')), [
    'sluice allocations manifests -f manifests/ -c sluice.yaml | kubectl apply -f -',
  ])
    .summary('print the Services with their allocations filled in')
    .description(
      'Prints the Services with their allocated addresses and ports filled in, so that an API server adopts them.',
    )
    .addOption(outputOption())
    .action(run(async (options) => (await import('../allocations/allocations.ts')).manifestsCommand(options)));

  examples(withInput(allocations.command('prune')), [
    'sluice allocations prune -f manifests/ -R -c sluice.yaml          # lists them; exit code 1 if there are any',
    'sluice allocations prune -f manifests/ -R -c sluice.yaml --yes    # removes them',
  ])
    .summary('remove allocations of deleted Services')
    .description(
      'Lists, and with --yes removes, allocations of Services that are not in the input. The input must contain every Service: the next render may reuse the address or port of a removed allocation. Run it after all nodes run a release without the deleted Services and after branches that add Services are merged.',
    )
    .option('--yes', 'remove them instead of listing them')
    .addOption(outputOption())
    .action(run(async (options) => (await import('../allocations/allocations.ts')).pruneCommand(options)));
}

export function addSnapshot(program: Command): void {
  examples(withCluster(program.command('snapshot')), [
    'sluice snapshot -o snapshot.yaml',
    'sluice snapshot -o - -n shop --context staging',
    'sluice snapshot --redact -o report.yaml',
    'sluice render -f manifests/ --base snapshot.yaml -o rendered',
  ])
    .summary('write the state of a cluster to a file')
    .description(
      'Reads Services, endpoints, Nodes, ServiceCIDRs and the kube-proxy configuration from a cluster and writes a snapshot for -f and --base.',
    )
    .addOption(pathOption('FILE|DIR|-', 'where to write; a DIR gets one file per kind'))
    .option('-n, --namespace <NS>', 'only Services in this namespace; may be repeated', collect)
    .option('-l, --selector <SELECTOR>', 'only Services with these labels', notEmpty)
    .option('--redact', 'replace names and addresses, for bug reports')
    .addOption(reportOption())
    .action(run(async (options) => (await import('../snapshot/snapshot.ts')).snapshotCommand(options)));
}

const watchExamples = [
  'sluice watch -o /var/lib/sluice-watch/rendered',
  'sluice watch -o rendered --commit --push --listen 127.0.0.1:9780',
  'sluice watch -o rendered --push oci://registry.example.com/sluice/shop:production --key /etc/sluice-watch/releases',
  'sluice watch -o rendered --push oci:/srv/releases:production --key /etc/sluice-watch/releases --serve 0.0.0.0:9443 --tls-cert tls.crt --tls-key tls.key',
  'sluice watch --node node-a -o /run/sluice-watch/rendered --kubeconfig /etc/sluice/kubeconfig',
  'sluice watch --node node-a --release /var/lib/sluice-fetch/release -o /run/sluice-watch/live',
  'sluice watch -o /bundle --lease kube-system/sluice --events --listen 0.0.0.0:9780 --log-format json',
];

export function addWatch(program: Command): void {
  const watch = withLog(withCluster(program.command('watch')), { format: 'text', level: 'info' });
  examples(watch, watchExamples)
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
        .conflicts(['commit', 'push', 'lease', 'serve']),
    )
    .option(
      '--release <DIR>',
      'with --node: render the Services of this release with the endpoints of the cluster, for `endpoints.live` of sluiced.yaml; other Services are reported',
      notEmpty,
    )
    .addOption(
      new Option(
        '--withdrawn <ENDPOINTS>',
        'with --release: whether Services that the cluster does not have keep their last endpoints, or have none',
      )
        .choices(['keep', 'drop'])
        .default('keep'),
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
    .option('--removal-least <N>', 'and at least so many (default: 10)', upTo(999_999_999))
    .option(
      '--accept-removal',
      'publish at once what the first look at the cluster takes away; later removals are held',
    )
    .option('--commit', 'make a Git commit for each burst of changes')
    .option(
      '--push [URL]',
      'as --commit, and push, after a rebase onto the remote branch; with oci://REGISTRY/REPOSITORY:TAG or oci:DIR:TAG: push releases there instead',
    )
    .option(
      '--key <FILE>',
      'sign releases with this key: nodes then take every change of the cluster without a review',
      notEmpty,
    )
    .option(
      '--serve <ADDRESS:PORT>',
      'serve the directory of --push oci:DIR:TAG over TLS, and tell nodes that follow of each release',
      address,
    )
    .option('--tls-cert <FILE>', 'the certificate of --serve (PEM), read again when it changes', notEmpty)
    .option('--tls-key <FILE>', 'its key', notEmpty)
    .option('--client-ca <FILE>', 'serve only clients with a certificate of these authorities', notEmpty)
    .addOption(reportOption())
    .hook('preAction', refuseReleaseWithoutNode)
    .action(run(async (options) => (await import('../watch/watch.ts')).watchCommand(options)));
}

function refuseReleaseWithoutNode(command: Command): void {
  const { release, node } = command.opts<Readonly<Record<string, unknown>>>();
  if (release !== undefined && node === undefined)
    command.error("error: option '--release <DIR>' needs '--node <NAME>'");
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

export function addKrm(program: Command): void {
  examples(
    program.command('krm'),
    [
      'kustomize build --enable-alpha-plugins --enable-exec .     # with integrations/kustomize',
      'sluice krm < list.yaml',
    ],
    'Exit codes: 0 done; 1 `check` is set and the bundle directory is out of date; 2 a problem, reported in `results` and on standard error.',
  )
    .summary('run as a function of kustomize or kpt')
    .description(
      'Reads a ResourceList from standard input and prints it with `results`; items are passed through unchanged. `spec` of its functionConfig ' +
        '(apiVersion sluice.dev/v1alpha1, kind SluiceFunction) has output, the bundle directory to write; config; base; check; strict. ' +
        'Without output, the items are rendered and nothing is written.',
    )
    .addOption(outputOption())
    .action(run(async (options) => (await import('../krm/krm.ts')).krmCommand(options)));
}
