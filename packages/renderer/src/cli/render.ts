import { examples, formats, outputOption, reportOption } from '@sluice/cli';
import { type Command, Option } from 'commander';
import { withCluster } from './cluster.ts';
import { notEmpty, run, withInput } from '../commands/options/options.ts';

/** Adds the commands that render: `render`, `validate` and `init`. */
export function renderCommands(program: Command): void {
  examples(withCluster(withInput(program.command('render'), 'or a cluster')), [
    'sluice render --from-cluster -o rendered',
    'sluice render -f manifests/ -o rendered',
    'sluice render -f manifests/ -R -c sluice.yaml -o rendered --check     # in CI: exit code 1 if it is out of date',
    'kubectl get services,endpointslices,nodes -A -o yaml > snapshot.yaml',
    'kustomize build . | sluice render -f - --base snapshot.yaml -c sluice.yaml -o rendered',
  ])
    .summary('render the rules of all nodes into a directory')
    .description('Reads Services, endpoints and Nodes and writes the rules of all nodes to a bundle directory.')
    .requiredOption('-o, --output <DIR>', 'the bundle directory', notEmpty)
    .option('--from-cluster', 'read the cluster instead of -f, or as the base of the manifests of -f')
    .addOption(
      new Option(
        '--quarantine',
        'leave invalid objects out, keep their last good files and list them in quarantine.yaml',
      ).conflicts('strict'),
    )
    .option('-v, --verbose', 'list every object of a repeated problem')
    .option('--check', 'write nothing; report whether DIR is up to date, and print the differences')
    .addOption(reportOption())
    .action(run(async (options) => (await import('../commands/render/render.ts')).renderCommand(options)));

  examples(withInput(program.command('validate')), [
    'sluice validate -f manifests/ --strict',
    'helm template shop ./chart | sluice validate -f - -o json',
  ])
    .summary('check manifests without writing')
    .description('Reads the same input as `render` and reports all problems, without writing.')
    .addOption(outputOption())
    .addOption(new Option('--report <FORMAT>', 'the same as -o').choices(formats))
    .option('-v, --verbose', 'list every object of a repeated problem')
    .action(run(async (options) => (await import('../commands/validate/validate.ts')).validateCommand(options)));

  examples(program.command('init'), [
    'sluice init',
    'kubectl get configmap,daemonset kube-proxy -n kube-system -o yaml | sluice init -f -',
  ])
    .summary('write a commented sluice.yaml')
    .description(
      "Writes a commented config. Given kube-proxy's ConfigMap and DaemonSet, it takes over its settings and version.",
    )
    .argument('[FILE]', 'the config', 'sluice.yaml')
    .option('-f, --filename <FILE|->', "kube-proxy's ConfigMap or KubeProxyConfiguration, and its DaemonSet", notEmpty)
    .option('--force', 'overwrite an existing file')
    .addOption(outputOption())
    .action(run(async (options, file) => (await import('../commands/init/init.ts')).initCommand(file, options)));
}
