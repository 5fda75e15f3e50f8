import { examples } from '@sluice/cli';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { CommandContext } from '../options/context.ts';
import { onNode, signaturesOption } from '../options/options.ts';

/** Adds `sluiced adopt`. */
export function addAdopt(program: Command, { terminal, finish }: CommandContext): void {
  examples(onNode(program.command('adopt').argument('[DIR]', "the bundle directory; default: the config's")), [
    'sluiced adopt /etc/sluice/rendered --unit kube-proxy.service',
    'sluiced adopt --manifest /etc/kubernetes/manifests/kube-proxy.yaml',
    'sluiced adopt --daemonset           # then label the node, so that the DaemonSet leaves it',
    'sluiced adopt --undo                # back to kube-proxy, from wherever the move stopped',
  ])
    .summary('move this node from kube-proxy, or back to it')
    .description(
      "Moves this node from kube-proxy to Sluice without losing a connection: preflight; what the node runs now is compared with the bundle; Sluice's rules go in front of kube-proxy's, on probation; then kube-proxy is stopped and kept from returning, its rules become generation 0 and are removed. A command that was interrupted is continued by the same command, or taken back with --undo. Stop sluiced.service first. Exit code 1 when something is left to do.",
    )
    .addOption(
      new Option('--unit <UNIT>', 'kube-proxy is a unit of systemd')
        .argParser(unit)
        .conflicts(['manifest', 'daemonset']),
    )
    .addOption(
      new Option('--manifest <FILE>', 'kube-proxy is a static pod of the kubelet')
        .argParser(path)
        .conflicts(['daemonset']),
    )
    .option(
      '--daemonset',
      'kube-proxy is in a DaemonSet, or in a program like k3s: the operator stops it while this command waits',
    )
    .option('--undo', 'move this node back to kube-proxy')
    .addOption(
      new Option(
        '--report <FILE>',
        'the result of `sluice parity -o json`; default: run parityProgram of the config',
      ).conflicts('withoutParity'),
    )
    .option('--accept <ID>', 'the id of a difference that is accepted; may be repeated', collect)
    .option('--without-parity', 'compare nothing; not with requireParity')
    .option('--wait <SECONDS>', 'how long kube-proxy may take to stop, or to write its rules', seconds, 120)
    .addOption(signaturesOption())
    .option('--allow-partial', 'accept a bundle that was rendered from incomplete input')
    .action((dir: string | undefined, options) =>
      finish(async () => (await import('./adopt.ts')).adoptCommand(dir, options, terminal)),
    );
}

const collect = (value: string, list: readonly string[] = []): readonly string[] => [...list, value];

/** The name of a service of systemd, without a template's parameter: no path can be made of it. */
export const isUnitName = (name: string): boolean => /^[A-Za-z0-9][-A-Za-z0-9_.]{0,200}\.service$/.test(name);

function unit(text: string): string {
  if (!isUnitName(text)) throw new InvalidArgumentError('Write the name of a service, such as kube-proxy.service.');
  return text;
}

function path(text: string): string {
  if (!/^\/[^\0]*\/[^/\0.][^/\0]*$/.test(text))
    throw new InvalidArgumentError('Write the absolute path of a manifest.');
  return text;
}

function seconds(text: string): number {
  if (!/^\d{1,4}$/.test(text)) throw new InvalidArgumentError('Write a number of seconds, at most 9999.');
  return Number(text);
}
