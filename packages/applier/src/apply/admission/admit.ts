import { type BundleFiles, needs, readPath, ResolveCache, type ResolvedFiles, resolveSections } from '@sluice/bundle';
import {
  differingFiles,
  inOnePiece,
  ipvsHost,
  type IpvsHost,
  keepSlots,
  Layered,
  modeFacts,
  NftMemory,
  nftNames,
  onKernel,
  parseKernelRelease,
  type Problem,
  readIpvs,
  readNft,
  readSysctlLine,
  refusal,
  type ResolvedVirtual,
  type ResolvedVirtualFile,
  serversByFile,
  type SysctlKey,
  toolOf,
} from '@sluice/netfilter';
import type { PartialRelease } from '../../ports/journal.ts';
import type { NodeFacts } from '../../ports/node-facts.ts';
import type { NodeState, ServiceNames } from '../../ports/node-state.ts';
import type { Refusal } from '../../ports/refusal.ts';
import { type ChainLayout, linkFamilies, LinkMemory } from './linking.ts';

/** Which frontends are of which Service, for one node after another bundle. Costs the files that changed. */
export class ServicesMemory {
  #files: readonly ResolvedVirtualFile[] = [];
  #services: ServiceNames = new Map();

  /**
   * @param files of a node in mode nftables that are read without problems
   * @returns the map of the last call if nothing differs from it; an equal list of names keeps its identity
   */
  of(files: readonly ResolvedVirtualFile[]): ServiceNames {
    const changes = differingFiles(this.#files, files).flatMap(({ path, after }) => {
      const service = serviceOf(path);
      if (service === undefined) return [];
      return [[service, after && kept(this.#services.get(service), nftNames(after))] as const];
    });
    this.#files = files;
    this.#services = Layered.of(this.#services).with(changes);
    return this.#services;
  }
}

/** Which virtual servers are of which Service, for a node in mode ipvs: files name them, and nothing in the kernel does. */
export function servicesOfServers(files: ResolvedVirtual, host: IpvsHost): ServiceNames {
  const named = [...serversByFile(files, host)].flatMap(([path, servers]) => {
    const service = serviceOf(path);
    return service === undefined ? [] : [[service, servers] as const];
  });
  return new Map(named);
}

/** `shop/web` of its file. */
function serviceOf(path: string): string | undefined {
  const of = readPath(path);
  return of?.kind === 'service' ? inOnePiece(`${of.namespace}/${of.name}`) : undefined;
}

const kept = (old: readonly string[] | undefined, names: readonly string[]): readonly string[] =>
  old?.length === names.length && old.every((name, at) => name === names[at]) ? old : names;

declare const admitted: unique symbol;
/** A node's part of a bundle, checked line by line against the grammar and against the abilities of the node. Only `admit` makes one. */
export interface AdmittedBundle {
  readonly version: string;
  readonly state: NodeState;
  /** Services of the bundle were left out, because their versions are quarantined. */
  readonly partial?: PartialRelease | undefined;
  readonly [admitted]: true;
}

/** Parsed files and linked rules of earlier bundles, so that a bundle costs only its changes. */
export class AdmitMemory {
  readonly files = new ResolveCache();
  readonly links = new LinkMemory();
  readonly nft = new NftMemory();
  readonly services = new ServicesMemory();
}

/** The settings of `admit` in the node's config. */
export interface AdmitOptions {
  readonly node: string;
  readonly allowPartial: boolean;
  /** For profiles in mode iptables; mode ipvs is `flat`. */
  readonly layout: ChainLayout;
  /** Networks, besides those of pods, in which endpoint updates may add endpoints. */
  readonly endpointRanges?: readonly string[];
}

/** Facts about the kernel on which the linked program depends. */
interface KernelContext {
  /** The active state: a name of its chains is not given to another content. */
  readonly active?: NodeState | undefined;
  /** Whether the program must contain the chains of kube-proxy that CNI plugins jump to. */
  readonly provideKubeChains?: boolean;
  /** Left out: true. */
  readonly knowsBpf?: boolean;
}

/**
 * Decides whether a node may take a bundle: checks everything that can be checked without touching the kernel.
 * @param files of one complete bundle; only those that concern the node are read
 * @param memory of earlier bundles; one for each caller
 * @returns the node's rules, or all problems because of which this node must not run them
 */
export function admit(
  files: BundleFiles,
  options: AdmitOptions,
  facts: NodeFacts,
  memory: AdmitMemory,
  context: KernelContext = {},
): AdmittedBundle | Refusal {
  const resolved = resolveSections(files, options.node, memory.files);
  if (!('version' in resolved)) return { problems: resolved };
  const sysctls = readSysctls(resolved, facts);
  const linked = linkFamilies(resolved, facts, { layout: options.layout, ...context }, memory.links);
  const virtual = readVirtual(resolved, facts);
  const nft = readTable(resolved, context.active, memory);
  const problems = [
    ...partial(resolved, options),
    ...missingTools(resolved, facts),
    ...lackingNeeds(resolved, facts),
    ...sysctls.problems,
    ...linked.problems,
    ...virtual.problems,
    ...nft.problems,
  ];
  if (problems.length > 0) return { problems };
  const size = resolved.conntrackHashSize;
  const state: NodeState = {
    families: linked.families,
    sysctls: sysctls.values,
    ...(size === undefined ? {} : { conntrackHashSize: size }),
    ...virtual.state,
    ...nft.state,
    ...endpointRanges(resolved, options),
  };
  return { version: resolved.version, state } as AdmittedBundle;
}

/**
 * The networks of pods of the profile, and those of the node's config. A profile that finds pods by other means has none: then only the
 * config bounds endpoints.
 */
function endpointRanges({ profile }: ResolvedFiles, options: AdmitOptions): Pick<NodeState, 'endpointRanges'> {
  const ofPods = profile.families.flatMap((family) => {
    const values = profile.values[family];
    const range = typeof values === 'object' && 'clusterCIDR' in values ? values['clusterCIDR'] : undefined;
    return typeof range === 'string' ? [range] : [];
  });
  const ranges = [...ofPods, ...(options.endpointRanges ?? [])];
  return ranges.length === 0 ? {} : { endpointRanges: ranges };
}

/** Whether `admit` refused. */
export function isRefusal(value: AdmittedBundle | Refusal): value is Refusal {
  return 'problems' in value;
}

function partial(resolved: ResolvedFiles, options: AdmitOptions): Problem[] {
  if (resolved.cluster.complete || options.allowPartial) return [];
  return [
    refusal(
      'BUNDLE_PARTIAL',
      'Cannot apply the bundle: it was rendered from an incomplete list of Services; Services that are not in it would lose their rules',
      'Render with a snapshot, or with `complete: true` in sluice.yaml. To apply it nevertheless, use `sluiced apply --allow-partial` or `allowPartial: true` in sluiced.yaml',
    ),
  ];
}

function missingTools({ profile, profileName }: ResolvedFiles, facts: NodeFacts): Problem[] {
  if (!modeFacts[profile.mode].hasTables) return [];
  return profile.families
    .filter((family) => facts.tools[family] === undefined)
    .map((family) =>
      refusal(
        'NODE_TOOL_MISSING',
        `Cannot apply ${family} rules: the node has no working ${toolOf[family]}`,
        `Install ${toolOf[family]}, or set \`families: [${family === 'ipv4' ? 'ipv6' : 'ipv4'}]\` in profile ${profileName}`,
      ),
    );
}

function lackingNeeds({ profile }: ResolvedFiles, facts: NodeFacts): Problem[] {
  return profile.needs.flatMap((need) =>
    profile.families
      .filter((family) => facts.tools[family] !== undefined && !isAtLeast(facts.tools[family] ?? '', [1, 6, 2]))
      .map((family) =>
        refusal(
          'NODE_LACKS_NEED',
          `Cannot apply the bundle: it needs ${needs[need].what}, the node has ${facts.tools[family]}`,
          `Install a newer one, or ${needs[need].option}`,
        ),
      ),
  );
}

/** Compares dotted versions number by number. */
export function isAtLeast(version: string, least: readonly number[]): boolean {
  const parts = version.split('.').map((part) => Number.parseInt(part, 10) || 0);
  for (const [index, wanted] of least.entries()) {
    const difference = (parts[index] ?? 0) - wanted;
    if (difference !== 0) return difference > 0;
  }
  return true;
}

function readSysctls(
  resolved: ResolvedFiles,
  facts: NodeFacts,
): { values: Map<SysctlKey, number>; problems: Problem[] } {
  const values = new Map<SysctlKey, number>();
  const problems: Problem[] = [];
  const release = parseKernelRelease(facts.kernelRelease) ?? [0, 0];
  for (const guarded of resolved.sysctls) {
    const line = onKernel(guarded, release);
    if (line === undefined) continue;
    const setting = readSysctlLine(line);
    if (typeof setting === 'string') {
      const hint = 'Remove the line from the profile; bundles set only keys of a closed list';
      problems.push(refusal('SYSCTL_NOT_ALLOWED', setting, hint));
    } else if (!facts.sysctlTakes(setting.key, setting.value)) {
      problems.push(fixedSysctl(setting.key, setting.value));
    } else {
      values.set(setting.key, setting.value);
    }
  }
  return { values, problems };
}

function fixedSysctl(key: SysctlKey, value: number): Problem {
  const module = key.startsWith('net.ipv4.vs.') ? 'ip_vs' : key.startsWith('net.netfilter.') ? 'nf_conntrack' : '';
  const load = module === '' ? '' : `load ${module}, `;
  const option = key === 'net.netfilter.nf_conntrack_max' ? 'set `conntrack.maxPerCore: 0` in' : `take ${key} out of`;
  return refusal(
    'NODE_SYSCTL_FIXED',
    `Cannot set sysctl ${key} to ${value}: it has another value and is read-only here`,
    `On the node: ${load}let sluiced write /proc/sys (not possible inside most containers), or ${option} the profile`,
  );
}

interface ReadVirtual {
  readonly state?: Pick<NodeState, 'ipvs' | 'services'>;
  readonly problems: readonly Problem[];
}

/** Reads sets, virtual servers and addresses, and checks for the tools that apply them. */
function readVirtual({ ipvs, profile }: ResolvedFiles, facts: NodeFacts): ReadVirtual {
  if (!ipvs) return { problems: [] };
  const host = ipvsHost(profile, facts.addresses);
  const state = readIpvs(ipvs, profile.families, host);
  const problems = facts.ipvsToolsMissing.map(missingIpvsTool);
  if ('problems' in state) return { problems: [...problems, ...state.problems] };
  const excludeCIDRs = profile.ipvs?.excludeCIDRs ?? [];
  return { state: { ipvs: { ...state, excludeCIDRs }, services: servicesOfServers(ipvs, host) }, problems };
}

function missingIpvsTool(tool: string): Problem {
  const message = `Cannot apply a profile in mode ipvs: the node has no ${tool}`;
  const hint = `Install ${tool === 'ip' ? 'iproute2' : tool}, or give the node a profile in mode iptables`;
  return refusal('NODE_TOOL_MISSING', message, hint);
}

/** Reads what the node runs in mode nftables. Endpoints keep the slots that they have in the active state. */
function readTable(
  { nft }: ResolvedFiles,
  active: NodeState | undefined,
  memory: AdmitMemory,
): { readonly state?: Pick<NodeState, 'nft' | 'services'>; readonly problems: readonly Problem[] } {
  if (!nft) return { problems: [] };
  const state = readNft(nft, memory.nft);
  if ('problems' in state) return state;
  return { state: { nft: keepSlots(state, active?.nft), services: memory.services.of(nft) }, problems: [] };
}
