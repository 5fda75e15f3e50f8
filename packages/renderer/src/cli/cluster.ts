import type { Command } from 'commander';
import { collect, examples, notEmpty, run } from './options.ts';

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
    .description('Reads Services, endpoints, Nodes and the config of kube-proxy from a cluster, for -f and --base.')
    .requiredOption('-o, --output <FILE|DIR|->', 'where to write; a DIR gets a file for each kind', notEmpty)
    .option('-n, --namespace <NS>', 'only Services of this namespace; may be repeated', collect)
    .option('-l, --selector <SELECTOR>', 'only Services with these labels', notEmpty)
    .option('--redact', 'put other names and addresses in their place, for bug reports')
    .action(run(async (options) => (await import('../commands/snapshot.ts')).snapshotCommand(options)));
}
