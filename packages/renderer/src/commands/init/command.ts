import { examples, outputOption } from '@sluice/cli';
import type { Command } from 'commander';
import { run } from '../options/action.ts';
import { notEmpty } from '../options/values.ts';

/** Adds `sluice init`. */
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
      "kube-proxy's ConfigMap, DaemonSet or Pod, the config of k3s or RKE2, or kubeadm's configuration",
      notEmpty,
    )
    .option('--force', 'overwrite an existing file')
    .addOption(outputOption())
    .action(run(async (options, file) => (await import('./init.ts')).initCommand(file, options)));
}
