import { examples, formats, outputOption, reportOption } from '@sluice/cli';
import { type Command, Option } from 'commander';
import { withCluster } from './cluster.ts';
import { notEmpty, run, withInput } from './options.ts';

/** From manifests to a bundle, and what prepares it. */
export function renderCommands(program: Command): void {
  examples(withCluster(withInput(program.command('render'), 'or a cluster')), [
    'sluice render --from-cluster -o rendered',
    'sluice render -f manifests/ -o rendered',
    'sluice render -f manifests/ -R -c sluice.yaml -o rendered --check     # in CI: exit code 1 when it is stale',
    'kubectl get services,endpointslices,nodes -A -o yaml > snapshot.yaml',
    'kustomize build . | sluice render -f - --base snapshot.yaml -c sluice.yaml -o rendered',
  ])
    .summary('write the rules of every node into a directory')
    .description('Reads Services, endpoints and Nodes and writes the rules of every node into a bundle directory.')
    .requiredOption('-o, --output <DIR>', 'the bundle directory', notEmpty)
    .option('--from-cluster', 'take a snapshot of the cluster in place of -f, or as the base of what -f names')
    .addOption(
      new Option(
        '--quarantine',
        'leave bad objects out, keep their last good files and list them in quarantine.yaml',
      ).conflicts('strict'),
    )
    .option('-v, --verbose', 'list every object of which the same is said')
    .option('--check', 'write nothing; say whether DIR is what would be written, and show what is stale')
    .addOption(reportOption())
    .action(run(async (options) => (await import('../commands/render.ts')).renderCommand(options)));

  examples(withInput(program.command('validate')), [
    'sluice validate -f manifests/ --strict',
    'helm template shop ./chart | sluice validate -f - -o json',
  ])
    .summary('read and report without writing')
    .description('Reads everything that `render` reads and reports every problem, without writing.')
    .addOption(outputOption())
    .addOption(new Option('--report <FORMAT>', 'the same as -o').choices(formats))
    .option('-v, --verbose', 'list every object of which the same is said')
    .action(run(async (options) => (await import('../commands/validate.ts')).validateCommand(options)));

  examples(program.command('init'), [
    'sluice init',
    'kubectl get configmap,daemonset kube-proxy -n kube-system -o yaml | sluice init -f -',
  ])
    .summary('write a commented sluice.yaml')
    .description(
      "Writes a commented config, with kube-proxy's own settings and version when its ConfigMap and DaemonSet are given.",
    )
    .argument('[FILE]', 'the config', 'sluice.yaml')
    .option('-f, --filename <FILE|->', "kube-proxy's ConfigMap or KubeProxyConfiguration, and its DaemonSet", notEmpty)
    .option('--force', 'overwrite a file that is there')
    .addOption(outputOption())
    .action(run(async (options, file) => (await import('../commands/init.ts')).initCommand(file, options)));
}
