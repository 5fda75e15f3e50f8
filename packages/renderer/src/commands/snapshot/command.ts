import { examples, reportOption, pathOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';
import { withCluster } from '../options/options.ts';
import { collect, notEmpty } from '../options/values.ts';

/** Adds `sluice snapshot`. */
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
    .action(run(async (options) => (await import('./snapshot.ts')).snapshotCommand(options)));
}
