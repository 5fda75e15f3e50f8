import {
  type BundleFiles,
  clusterFile,
  hostValues,
  nodeFile,
  profileFile,
  readPath,
  type ResolvedFiles,
  resolveSections,
  serverName,
} from '@sluice/bundle';
import {
  canonicalRule,
  fillHost,
  type HostValues,
  ipvsHost,
  isServerLine,
  lineFamily,
  modeFacts,
  printSection,
  readNftFiles,
  ruleLinesOf,
  type Tool,
  type VirtualTool,
} from '@sluice/netfilter';
import type { SluicedConfig } from '../../config.ts';
import { readMachine } from '../../kernel/facts.ts';
import { procTunables } from '../../kernel/sysctl.ts';
import type { Unnamed } from './service-view.ts';
import { lookAt } from '../session/gate.ts';

/** The files of a Service as this node resolves them: guards decided, variables filled in. */
export interface ServiceFiles extends Unnamed {
  /** The version of their bundle. */
  readonly version: string;
  readonly files: readonly { readonly path: string; readonly text: string }[];
}

/**
 * Reads the files of a Service from the bundle directory of the config, which may differ from the active generation.
 * @returns undefined without a bundle; a text when it cannot be read
 */
export async function readServiceFiles(
  config: SluicedConfig,
  service: string,
): Promise<ServiceFiles | string | undefined> {
  const arrival = await lookAt(config, false);
  if (arrival.kind === 'absent') return undefined;
  if (arrival.kind === 'refused') return arrival.problems.map(({ message }) => message).join('; ');
  const { files } = arrival.tree;
  const whole = resolveSections(files, config.node);
  if (!('version' in whole)) return whole.map(({ message }) => message).join('; ');
  const paths = [...files.keys()].filter((path) => isFileOf(path, whole.profileName, service));
  const texts = paths.map((path) => ({ path, text: resolvedText(files, config.node, whole, path) }));
  const linesOf = (tool: Tool | VirtualTool): readonly string[] =>
    texts.filter(({ path }) => path.endsWith(`.${tool}`)).flatMap(({ text }) => text.split('\n'));
  const rules = ruleLinesOf([...linesOf('iptables'), ...linesOf('ip6tables')]);
  return {
    version: whole.version,
    files: texts
      .filter(({ text }) => text !== '')
      .map(({ path, text }) => ({ path: `${config.bundle}/${path}`, text })),
    servers: new Set(linesOf('ipvs').filter(isServerLine).map(serverName)),
    frontends: new Set(paths.flatMap((path) => frontendsOf(files, config.node, whole, path))),
    // Where Services have chains, their names tell which rules are of a Service.
    rules: new Set(modeFacts[whole.profile.mode].hasServiceChains ? [] : rules.map(canonicalRule)),
  };
}

function isFileOf(path: string, profile: string, service: string): boolean {
  const what = path.includes(`/services/${service}.`) ? readPath(path) : undefined;
  return what?.kind === 'service' && what.profile === profile && `${what.namespace}/${what.name}` === service;
}

/** A bundle with one file of a Service alone. */
function resolvedAlone(
  files: BundleFiles,
  node: string,
  { profileName }: ResolvedFiles,
  path: string,
): ResolvedFiles | undefined {
  const only = [clusterFile, nodeFile(node), profileFile(profileName), path];
  const one = resolveSections(new Map(only.map((name) => [name, files.get(name) ?? ''])), node);
  return 'version' in one ? one : undefined;
}

function frontendsOf(files: BundleFiles, node: string, whole: ResolvedFiles, path: string): readonly string[] {
  const nft = resolvedAlone(files, node, whole, path)?.nft;
  const read = nft && readNftFiles(nft);
  return read && 'frontends' in read ? [...read.frontends.keys()] : [];
}

/** One file as this node resolves it. */
function resolvedText(files: BundleFiles, node: string, whole: ResolvedFiles, path: string): string {
  const { profile } = whole;
  const one = resolvedAlone(files, node, whole, path);
  if (!one) return '';
  const machine = readMachine(procTunables);
  const host = ipvsHost(profile, machine.addresses);
  const rules = [...one.sections].flatMap(([family, sections]) =>
    sections
      .flat()
      .map((section) => ({ ...section, rules: filled(section.rules, hostValues(whole, machine, family)) })),
  );
  const { ipset = [], ipvs = [] } = one.ipvs ?? {};
  const elements = (one.nft ?? []).flatMap((file) => file.lines.map(({ text }) => text));
  const lines = (['ipset', 'ipvs'] as const).flatMap((tool) =>
    (tool === 'ipset' ? ipset : ipvs).flatMap((file) =>
      file.lines.flatMap(({ text }) => filled([text], host[lineFamily(tool, text)])),
    ),
  );
  return [...rules.map(printSection), ...[...lines, ...elements].map((line) => `${line}\n`)].join('');
}

const filled = (lines: readonly string[], host: HostValues): readonly string[] =>
  lines.flatMap((line) => fillHost(line, host));
