import { examples, reportOption, pathOption } from '@sluice/cli';
import { type Command, Option } from 'commander';
import { run } from '../options/action.ts';
import { withCluster, withInput } from '../options/options.ts';

/** Adds `sluice render`. */
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
    .action(run(async (options) => (await import('./render.ts')).renderCommand(options)));
}
