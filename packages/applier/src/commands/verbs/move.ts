import { examples, outputOption } from '@sluice/cli';
import { type Command, InvalidArgumentError, Option } from 'commander';
import { type CommandContext, verb } from '../options/context.ts';
import { onNode, signaturesOption } from '../options/options.ts';

/** The options and help of the verbs with which operators move from kube-proxy, and repair. */

/** Adds `sluiced adopt`. */
export function addAdopt(program: Command, context: CommandContext): void {
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
    .action(verb(context, async () => (await import('../adopt/adopt.ts')).adoptCommand));
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

/** Adds `sluiced backend`. */
export function addBackend(program: Command, context: CommandContext): void {
  examples(onNode(program.command('backend').argument('[STORE]', 'nft or legacy')), [
    'sluiced backend               # shows the rule store in use, and foreign rules in both stores',
    'systemctl stop sluiced && sluiced backend nft && systemctl start sluiced',
  ])
    .summary('show the rule store in use, or move the rules')
    .description(
      'Shows which rule store holds the rules, nf_tables or legacy, and the foreign rules in both; or moves the rules to the other store without interrupting traffic. Exit code 1 when the store in use looks wrong.',
    )
    .action(verb(context, async () => (await import('../backend/backend.ts')).backend));
}

/** Adds `sluiced recover`. */
export function addRecover(program: Command, context: CommandContext): void {
  examples(onNode(program.command('recover')), ['sluiced recover && systemctl start sluiced'])
    .summary('take over the rules in the kernel after the state directory was lost')
    .description(
      'Takes over the rules in the kernel as the active generation, on a node whose state directory was lost. Changes no rule. Exit code 3 when that is not possible.',
    )
    .action(verb(context, async () => (await import('../recover/recover.ts')).recover));
}

/** Adds `sluiced cleanup`. */
export function addCleanup(program: Command, context: CommandContext): void {
  examples(onNode(program.command('cleanup')), [
    'sluiced cleanup',
    'sluiced cleanup --dry-run',
    'sluiced cleanup --yes',
  ])
    .summary('remove all rules of Sluice from the kernel')
    .description(
      'Removes all rules of Sluice from the kernel and restores the sysctls. Foreign rules are not changed. On a terminal it asks first.',
    )
    .option('--dry-run', 'say what would be removed, and remove nothing')
    .option('--yes', 'do not ask for confirmation')
    .action(verb(context, async () => (await import('../cleanup/cleanup.ts')).cleanup));
}

/** Adds `sluiced keygen`. */
export function addKeygen(program: Command, context: CommandContext): void {
  examples(onNode(program.command('keygen')), ['sluiced keygen', 'sluiced keygen --renew'])
    .summary('make the key that signs receipts')
    .description(
      'Creates the key that signs the receipts of this node, and prints its line for allowed_receipts. An existing key is kept.',
    )
    .option('--renew', 'replace an existing key')
    .action(verb(context, async () => (await import('../keygen/keygen.ts')).keygen));
}

/** Adds `sluiced init`. */
export function addInit(program: Command, context: CommandContext): void {
  examples(program.command('init').argument('[FILE]', 'the config; - prints it', '/etc/sluice/sluiced.yaml'), [
    'sluiced init -',
    'sluiced init',
    'sluiced init --source oci://registry.example.com/sluice/shop:production --keys allowed_signers',
    'sluiced init --source git+ssh://git@git.example.com/shop.git#main:rendered --keys allowed_signers --credentials /etc/sluice/git_key',
  ])
    .summary('write a commented sluiced.yaml')
    .description(
      'Writes a config for this node, with comments that say what was found: name, tools, rule store, a kube-proxy, bundle directory and signers. It grants nothing: signatures stay required. With --source also what a node needs to fetch releases: allowed_signers beside the config, and units if systemd has none.',
    )
    .option('--source <URL>', 'where releases come from, a URL of oci, https, git+https, git+ssh or dir')
    .option('--receipts <URL>', 'where receipts go, in the same forms; a registry without a tag')
    .option('--keys <FILE>', 'who may sign releases: checked, and copied to allowed_signers beside the config')
    .option('--ca <FILE>', 'certificates of a private authority for these servers')
    .option('--credentials <FILE>', 'a file with the password, token or key for these servers')
    .option('--node <NAME>', "the node's name in the bundle (default: the kubelet's, else the host name)")
    .option('--force', 'overwrite an existing file')
    .addOption(outputOption())
    .action((file: string, options) =>
      context.finish(async () => (await import('../init/init.ts')).init(file, options, context.terminal)),
    );
}
