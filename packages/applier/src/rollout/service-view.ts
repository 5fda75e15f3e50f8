import {
  canonicalRule,
  chainOf,
  compareText,
  type Family,
  partOfService,
  printServer,
  printVirtual,
  type ServicePart,
  type TableName,
  tableNames,
  type TableProgram,
  virtualKey,
  type VirtualServer,
} from '@sluice/bundle';
import type { Drain, IpvsSeen } from '../ipvs/values.ts';
import { otherSluice, ownState } from './own.ts';
import { chainNames, familyNames, joinNames, type NodeState, type Observed, tableOf } from './state.ts';

/** Where a line of a Service stands; `draining`: in the kernel alone, until the connections of a real server are over. */
export type Held = 'both' | 'kernel' | 'generation' | 'draining';

/** A line as iptables-save or ipvsadm -S prints it. */
export interface ServiceLine {
  readonly text: string;
  readonly in: Held;
}

/** What a kernel and a generation hold of one Service. */
export interface ServiceView {
  /** Tables that neither has anything in are left out. */
  readonly rules: readonly {
    readonly family: Family;
    readonly table: TableName;
    readonly lines: readonly ServiceLine[];
    /** A chain has its rules in another order than the generation has them, or one of them more than once. */
    readonly isReordered: boolean;
  }[];
  /** In mode ipvs. */
  readonly virtualServers: readonly ServiceLine[];
}

/** What a kernel shows. */
export interface Shown {
  readonly observed: Observed;
  /** In mode ipvs. */
  readonly servers?: IpvsSeen['servers'];
  /** `Journal.draining` */
  readonly draining?: readonly Drain[];
}

/** What is a Service's in mode ipvs, where neither rules nor virtual servers say whose they are. */
export interface Unnamed {
  /** How ipvsadm names its virtual servers: `-t 10.96.0.10:80`. */
  readonly servers: ReadonlySet<string>;
  /** Its rules, each as `canonicalRule` spells it. */
  readonly rules: ReadonlySet<string>;
}

/**
 * A Service's part of a kernel beside that of a generation, line by line.
 * @param service `shop/web`
 */
export function viewService(service: string, state: NodeState, shown: Shown, unnamed: Unnamed): ServiceView {
  const { observed } = shown;
  // Names of layout `tree` are nobody else's: also those of a release on trial, which the generation does not know.
  const owned = joinNames(chainNames(state), otherSluice(observed, {}));
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
  return { rules: rules.filter(({ lines }) => lines.length > 0), virtualServers: serverLines(state, shown, unnamed) };
}

function serverLines({ ipvs }: NodeState, { servers, draining = [] }: Shown, unnamed: Unnamed): readonly ServiceLine[] {
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

/** The rules of each chain in their order, whatever the order of the chains. */
function byChain(lines: readonly string[]): string {
  const rules = lines.filter((line) => line.startsWith('-A '));
  return [...Map.groupBy(rules, chainOf)]
    .toSorted(([a], [b]) => compareText(a, b))
    .flatMap(([, list]) => list.map(canonicalRule))
    .join('\n');
}

const linesOf = ({ leading, chains }: ServicePart): readonly string[] => [
  ...[...chains.keys()].map((name) => `:${name} - [0:0]`),
  ...leading,
  ...[...chains.values()].flat(),
];

const linesAmong = ({ chains }: TableProgram, wanted: ReadonlySet<string>): readonly string[] =>
  wanted.size === 0 ? [] : [...chains.values()].flat().filter((rule) => wanted.has(canonicalRule(rule)));

/** The lines of the kernel in its order, then those that it lacks. */
function sideBySide(kernel: readonly string[], generation: readonly string[]): readonly ServiceLine[] {
  const [has, should] = [new Set(kernel.map(canonicalRule)), new Set(generation.map(canonicalRule))];
  return [
    ...kernel.map((text): ServiceLine => ({ text, in: should.has(canonicalRule(text)) ? 'both' : 'kernel' })),
    ...generation
      .filter((text) => !has.has(canonicalRule(text)))
      .map((text): ServiceLine => ({ text, in: 'generation' })),
  ];
}

const allLines = ({ rules, virtualServers }: ServiceView): readonly ServiceLine[] => [
  ...rules.flatMap(({ lines }) => lines),
  ...virtualServers,
];

/** Whether neither the kernel nor the generation has anything of the Service. */
export const isNowhere = (view: ServiceView): boolean => allLines(view).length === 0;

/** Whether the kernel has exactly what the generation has of the Service, but for real servers that drain. */
export const holds = (view: ServiceView): boolean =>
  allLines(view).every((line) => line.in === 'both' || line.in === 'draining') &&
  view.rules.every(({ isReordered }) => !isReordered);
