import { type Command, Option } from 'commander';
import { collect, notEmpty } from './values.ts';

/** Adds the input options that all commands that read manifests have. */
export function withInput(command: Command, source: 'files' | 'or a cluster' = 'files'): Command {
  const filename = [
    '-f, --filename <FILE|DIR|->',
    'manifests in YAML or JSON; - for standard input; may be repeated',
  ] as const;
  const read = source === 'files' ? command.requiredOption(...filename, collect) : command.option(...filename, collect);
  return read
    .option('-R, --recursive', 'read directories recursively')
    .option(
      '--base <SNAPSHOT>',
      'the current state of the cluster, overlaid with the manifests; may be repeated',
      collect,
    )
    .option('-c, --config <FILE>', 'the SluiceConfig; allocations/ is beside it', notEmpty)
    .option('--strict', 'treat warnings as errors');
}

/** Adds the options that select the cluster and the credentials. */
export function withCluster(command: Command): Command {
  return command
    .option(
      '--kubeconfig <FILE>',
      'the kubeconfig; default: KUBECONFIG, ~/.kube/config or the ServiceAccount of the pod',
      notEmpty,
    )
    .option('--context <NAME>', 'the context in the kubeconfig', notEmpty);
}

/** The layout of rules that are printed or traced. */
export const layoutOption = (): Option =>
  new Option('--layout <LAYOUT>', "the layout of the rules: flat (kube-proxy's chain names) or tree (Sluice's)")
    .choices(['flat', 'tree'])
    .default('flat');

/** For commands that talk to a registry. */
export const plainHttpOption = (): Option =>
  new Option('--plain-http', 'use HTTP instead of HTTPS, also for a registry on another machine');
