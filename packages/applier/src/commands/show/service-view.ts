import {
  canonicalRule,
  chainOf,
  compareText,
  type Family,
  type NftState,
  partOfService,
  printServer,
  printVirtual,
  ruleLinesOf,
  type ServicePart,
  type TableName,
  tableNames,
  type TableProgram,
  virtualKey,
  type VirtualServer,
} from '@sluice/netfilter';
import type { Drain, ObservedIpvs } from '../../ports/ipvs/values.ts';
import { decodeTable } from '../../ports/nftables/decode.ts';
import type { ObservedNft } from '../../ports/nftables/observed.ts';
import { foreignSluiceChains, ownState } from '../../apply/plan/ownership.ts';
import { chainNames, familyNames, joinNames, type NodeState, type Observed, tableOf } from '../../ports/node-state.ts';
import { type ServiceLine, sideBySide } from './side-by-side.ts';

/** The rules of one Service in the kernel and in a generation, side by side. */
export interface ServiceView {
  /** Tables without lines are left out. */
  readonly rules: readonly {
    readonly family: Family;
    readonly table: TableName;
    readonly lines: readonly ServiceLine[];
    /** In the kernel a chain has its rules in another order, or one of them more than once. */
    readonly isReordered: boolean;
  }[];
  /** In mode ipvs. */
  readonly virtualServers: readonly ServiceLine[];
  /** In mode nftables. */
  readonly frontends: readonly ServiceLine[];
}

/** The observed state of a kernel. */
interface KernelContents {
  readonly observed: Observed;
  /** In mode ipvs. */
  readonly servers?: ObservedIpvs['servers'];
  /** `Journal.draining` */
  readonly draining?: readonly Drain[];
  /** In mode nftables; left out: there is no table. */
  readonly table?: ObservedNft | undefined;
}

/** The parts of a Service in modes ipvs and nftables, where nothing in the kernel names a Service. */
export interface Unnamed {
  /** Its virtual servers, as ipvsadm names them: `-t 10.96.0.10:80`. */
  readonly servers: ReadonlySet<string>;
  /** Its rules, each as `canonicalRule` spells it. */
  readonly rules: ReadonlySet<string>;
  /** In mode nftables: the keys of its frontends. */
  readonly frontends?: ReadonlySet<string>;
}

/**
 * Compares a Service's rules in the kernel with those of a generation, line by line.
 * @param service `shop/web`
 */
export function viewService(
  service: string,
  state: NodeState,
  contents: KernelContents,
  unnamed: Unnamed,
): ServiceView {
  const { observed } = contents;
  // All chains with names of layout `tree` are ours, also those of a release in probation, which are not in the generation.
  const owned = joinNames(chainNames(state), foreignSluiceChains(observed, {}));
  const kernel = { families: ownState(observed, owned, state) };
  const rules = familyNames.flatMap((family) =>
    tableNames.map((table) => {
      const part = (of: Pick<NodeState, 'families'>): readonly string[] => [
        ...linesOf(partOfService(tableOf(of, family, table), service)),
        ...linesAmong(tableOf(of, family, table), unnamed.rules),
      ];
      const [has, should] = [part(kernel), part(state)];
      const lines = sideBySide(has, should);
      const isReordered = lines.every((line) => line.in === 'both') && byChain(has) !== byChain(should);
      return { family, table, lines, isReordered };
    }),
  );
  return {
    rules: rules.filter(({ lines }) => lines.length > 0),
    virtualServers: serverLines(state, contents, unnamed),
    frontends: frontendLinesOf(state.nft, contents.table, unnamed.frontends ?? new Set()),
  };
}

function serverLines(
  { ipvs }: NodeState,
  { servers, draining = [] }: KernelContents,
  unnamed: Unnamed,
): readonly ServiceLine[] {
  const named = (all: Iterable<VirtualServer> = []): readonly VirtualServer[] =>
    [...all].filter((server) => unnamed.servers.has(printVirtual(server)));
  const leaving = new Set(draining.map(({ server, real }) => `${server} ${real}`));
  const drains = named(servers?.values()).flatMap((server) => {
    const real = [...server.real].filter(([name]) => leaving.has(`${virtualKey(server)} ${name}`));
    return printServer({ ...server, real: new Map(real) }).slice(1);
  });
  return sideBySide(
    named(servers?.values()).flatMap(printServer),
    named(ipvs?.virtualServers.values()).flatMap(printServer),
  ).map((line) => (line.in === 'kernel' && drains.includes(line.text) ? { ...line, in: 'draining' } : line));
}

/** The rules of each chain in their order, independent of the order of the chains. */
function byChain(lines: readonly string[]): string {
  const rules = ruleLinesOf(lines);
  return [...Map.groupBy(rules, chainOf)]
    .toSorted(([a], [b]) => compareText(a, b))
    .flatMap(([, list]) => list.map(canonicalRule))
    .join('\n');
}

const linesOf = ({ dispatchRules, chains }: ServicePart): readonly string[] => [
  ...[...chains.keys()].map((name) => `:${name} - [0:0]`),
  ...dispatchRules,
  ...[...chains.values()].flat(),
];

const linesAmong = ({ chains }: TableProgram, wanted: ReadonlySet<string>): readonly string[] =>
  wanted.size === 0 ? [] : [...chains.values()].flat().filter((rule) => wanted.has(canonicalRule(rule)));

const allLines = ({ rules, virtualServers, frontends }: ServiceView): readonly ServiceLine[] => [
  ...rules.flatMap(({ lines }) => lines),
  ...virtualServers,
  ...frontends,
];

/** Whether neither the kernel nor the generation has a rule of the Service. */
export const isNowhere = (view: ServiceView): boolean => allLines(view).length === 0;

/** Whether the kernel has exactly the generation's rules of the Service, except for real servers that drain. */
export const holds = (view: ServiceView): boolean =>
  allLines(view).every((line) => line.in === 'both' || line.in === 'draining') &&
  view.rules.every(({ isReordered }) => !isReordered);

/**
 * The frontends of a Service in mode nftables, in the kernel and in a generation, side by side. Slots and halves do not count, so the lines
 * are those of a state: `10.96.0.10 . tcp . 80 endpoint 10.244.1.5 . 8080`.
 * @param state of the generation; undefined in other modes
 * @param observed undefined: the kernel has no table
 * @param keys of the Service's frontends
 */
function frontendLinesOf(
  state: NftState | undefined,
  observed: ObservedNft | undefined,
  keys: ReadonlySet<string>,
): readonly ServiceLine[] {
  const kernel = observed && decodeTable(observed, state);
  return sideBySide(frontendLines(kernel, keys), frontendLines(state, keys));
}

function frontendLines(state: NftState | undefined, keys: ReadonlySet<string>): readonly string[] {
  return [...keys].flatMap((key) => {
    const lines = state?.frontends.get(key)?.toSorted();
    // A frontend without a line serves nothing of its own, but it is there.
    return lines?.length === 0 ? [key] : (lines ?? []).map((line) => `${key} ${line}`);
  });
}
