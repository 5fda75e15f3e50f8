import { addressOfEndpoint, compareText, type ExaminedTarget, families, type Unread } from '@sluice/netfilter';
import type { SluicedConfig } from '../../config.ts';
import { decidingRules } from '../doctor/checks/diagnose-node.ts';
import type { ConntrackFacts, Facts, Frontend, InterfaceFacts, RouteFacts, SluicedFacts } from '../doctor/facts.ts';
import type { Meeting } from '../doctor/meetings.ts';
import { followedMax, outsideClient, sample } from '../doctor/packets.ts';
import { frontendsOf } from '../doctor/target.ts';
import type { Run } from '../../kernel/command.ts';
import { readTrackedPaths } from '../../kernel/conntrack/conntrack.ts';
import { processesNamed } from '../../kernel/facts.ts';
import { findTool, type RuleStore } from '../../kernel/tools.ts';
import { LineSplitter, messageOf } from '../../message.ts';
import { staleFlows } from '../../apply/plan/flows.ts';
import type { NodeState } from '../../ports/node-state.ts';
import { bounds } from './bounds.ts';
import { countConnections, readFill } from './connections.ts';
import { observeLive } from './live.ts';
import { missingTools, readClock, readDisk, readModules, readVersions } from './machine.ts';
import {
  readCounters,
  readFailedNeighbours,
  readInterfaces,
  readListeners,
  readNeighbourTables,
  readPods,
  readRoutes,
  readSysctls,
} from './network.ts';
import { readNftTables, readUnprinted } from './nft-tables.ts';
import { desiredFacts } from './node.ts';
import { printedBy } from './printed.ts';
import type { SavedTables } from './tables.ts';

/** What is known of the node before it is examined. */
interface Subject {
  readonly config: SluicedConfig;
  readonly target: ExaminedTarget;
  readonly sluiced: SluicedFacts;
  /** The active generation; undefined: there is none. */
  readonly active: NodeState | undefined;
  readonly store: RuleStore;
  /** Those that the bundle gives the node. */
  readonly nodeAddresses: readonly string[];
  /** Whether packets may be sent. */
  readonly isLive: boolean;
  /** Compares the kernel with the active generation; `saved` keeps the rules that it reads. */
  readonly differences: () => Promise<readonly string[]>;
  readonly saved: SavedTables;
  /** Why nft cannot write to this kernel; empty: it can, or the node runs another mode. */
  readonly cannotWrite: () => Promise<string>;
}

/** Reads a node. Without `isLive` nothing is sent and nothing is written. Each part may fail by itself. */
export async function examine(subject: Subject, run: Run): Promise<Facts> {
  const { config, target, sluiced, active, store, nodeAddresses } = subject;
  const reads = new Reads();
  const desired =
    active && (await reads.one('the active generation', async () => desiredFacts(active, store, nodeAddresses)));
  const interfaces = await reads.one('interfaces (ip address)', () => readInterfaces(run));
  const asked = desired ? sample(frontendsOf(target, desired, interfaces ?? []), followedMax.frontends) : [];
  const own = new Set(interfaces?.flatMap(({ addresses }) => addresses));
  const compared = active && reads.one('the comparison with the active generation', subject.differences);
  // At once: most of the time goes to tools, which use both processors.
  const facts = await settle({
    differences: compared,
    tables: reads.one('rules of iptables', () => allTables(subject, compared, run)),
    nftTables: reads.one('tables of nftables', () => readNftTables(run)),
    pods: reads.one('routes (ip route show)', () => readPods(own, run)),
    routes: reads.one('routes (ip route get)', () => routesOf(asked, interfaces ?? [], run)),
    failedNeighbours: reads.one('neighbours (ip neigh)', () => readFailedNeighbours(run)),
    neighbours: reads.one('neighbour tables', async () => readNeighbourTables()),
    sysctls: reads.one('sysctls', async () => readSysctls()),
    counters: reads.one('counters of /proc/net', async () => readCounters()),
    conntrack: reads.one('tracked connections', () => readConntrack(asked, interfaces ?? [], active, run)),
    kubeProxies: reads.one('processes', async () => processesNamed('kube-proxy')),
    listeners: reads.one('listening sockets (ss)', () => readListeners(run)),
    disk: reads.one('the file system of the state directory', async () => readDisk(config.state)),
    clock: active && reads.one('the times of the state directory', async () => readClock(config.state)),
    missingTools: desired && missingTools(desired.mode, store),
    versions: reads.one('versions of tools', () => readVersions(run)),
    modules: readModules(),
    cannotWrite: reads.one('whether nft can write', subject.cannotWrite),
  });
  const unprinted = await reads.one('tables that iptables cannot print', () =>
    Promise.all(subject.saved.unprinted().map((table) => readUnprinted(table, run))),
  );
  // Afterwards, so that nothing of it is taken for the node's own.
  const live = subject.isLive ? await reads.one('own packets', () => observeLive(asked, [...own], run)) : undefined;
  const seen = present({ node: config.node, sluiced, desired, interfaces, unprinted, ...facts, unread: [] });
  const ruleCounters = await reads.one('counters of rules', () => readRuleCounters(decidingRules(target, seen), run));
  const unread = reads.unread.toSorted((a, b) => compareText(a.what, b.what));
  return present({ ...seen, ruleCounters, live, unread });
}

/** Awaits every value of an object. */
async function settle<T extends object>(promises: { readonly [K in keyof T]: Promise<T[K]> | T[K] }): Promise<T> {
  const entries = Object.entries(promises).map(async ([key, value]) => [key, await value] as const);
  return Object.fromEntries(await Promise.all(entries)) as T;
}

/** A part that was not read is left out. */
const present = (facts: { readonly [K in keyof Facts]: Facts[K] | undefined }): Facts =>
  Object.fromEntries(Object.entries(facts).filter(([, value]) => value !== undefined)) as unknown as Facts;

/** Reads that may fail, each by itself. */
class Reads {
  readonly unread: Unread[] = [];

  async one<T>(what: string, read: () => Promise<T>): Promise<T | undefined> {
    try {
      return await read();
    } catch (error) {
      this.unread.push({ what, because: messageOf(error) });
      return undefined;
    }
  }
}

/** The store of the node comes after its comparison, which has read it. */
async function allTables(
  { saved, store: own }: Subject,
  compared: Promise<unknown> | undefined,
  run: Run,
): Promise<NonNullable<Facts['tables']>> {
  const ofStore = async (store: RuleStore): Promise<NonNullable<Facts['tables']>> => {
    if (store === own) await compared;
    return (await Promise.all(families.map((family) => saved.of(store, family, run)))).flat();
  };
  return (await Promise.all((['nft', 'legacy'] as const).map(ofStore))).flat();
}

/** From this node to endpoints and frontends, and from endpoints back to a client outside of the cluster. */
async function routesOf(
  asked: readonly Frontend[],
  interfaces: readonly InterfaceFacts[],
  run: Run,
): Promise<readonly RouteFacts[]> {
  const endpoints = asked.flatMap((one) =>
    sample(one.endpoints, followedMax.endpoints).map(({ text }) => addressOfEndpoint(text)),
  );
  const vips = asked.flatMap(({ address }) => (address === undefined || address.includes('/') ? [] : address));
  const there = await readRoutes(
    distinct([...endpoints, ...vips]).map((to) => ({ to })),
    run,
  );
  const own = new Set(interfaces.flatMap(({ addresses }) => addresses));
  const isEndpoint = new Set(endpoints);
  const back = there.flatMap(({ to, dev, via, isLocal }) => {
    const isOnNode = dev !== undefined && !isLocal && via === undefined && !own.has(to) && isEndpoint.has(to);
    return isOnNode ? [{ to: outsideClient[to.includes(':') ? 'ipv6' : 'ipv4'], from: to, iif: dev }] : [];
  });
  const clients = [...new Set(asked.map(({ family }) => outsideClient[family]))].map((to) => ({ to }));
  return [...there, ...(await readRoutes([...clients, ...back], run))];
}

const distinct = (addresses: readonly string[]): readonly string[] => [...new Set(addresses)].slice(0, bounds.routes);

async function readConntrack(
  asked: readonly Frontend[],
  interfaces: readonly InterfaceFacts[],
  active: NodeState | undefined,
  run: Run,
): Promise<ConntrackFacts> {
  const endpoints = new Set(
    asked.flatMap(({ endpoints: all, protocol }) => all.map(({ text }) => `${text} ${protocol}`)),
  );
  const own = new Set(interfaces.flatMap(({ addresses }) => addresses));
  const file = findTool('conntrack');
  const stale = active && file !== undefined ? staleFlows(active, await readTrackedPaths(file, run)) : [];
  return { ...readFill(), ...(await countConnections(endpoints, own, run)), stale };
}

/**
 * Reads how many packets rules of iptables counted, and policies.
 * @param rules with their table
 * @returns by `Meeting.rule`
 * @throws Error when a tool fails
 */
async function readRuleCounters(rules: readonly Meeting[], run: Run): Promise<ReadonlyMap<string, number>> {
  const found = new Map<string, number>();
  const wanted = new Set(rules.map(({ rule }) => rule));
  for (const [command, [first]] of Map.groupBy(rules, ({ rule }) => rule.split(' ', 3).join(' '))) {
    // `iptables-nft -t filter`
    const [tool = ''] = command.split(' ');
    if (findTool(`${tool}-save`) === undefined || first?.table === undefined) continue;
    const lines = new LineSplitter((line) => addCounted(line, command, wanted, found));
    const onOutput = (part: string): void => lines.take(part);
    await printedBy(`${tool}-save`, ['-c', '-t', first.table], run, { onOutput });
  }
  return found;
}

/** Adds what a line counted. A chain may have the same rule twice, of which the first takes all packets. */
export function addCounted(line: string, command: string, wanted: ReadonlySet<string>, to: Map<string, number>): void {
  const [rule, packets] = readCounted(line);
  const key = `${command} ${rule}`;
  if (rule !== '' && wanted.has(key)) to.set(key, (to.get(key) ?? 0) + packets);
}

/** `[12:720] -A FORWARD -j DROP`, `:FORWARD DROP [12:720]`; an empty rule for other lines. */
export function readCounted(line: string): readonly [string, number] {
  const [, packets = '', rule = ''] = /^\[(\d+):\d+\] (-A .*)$/.exec(line) ?? [];
  if (rule !== '') return [rule, Number(packets)];
  const [, chain = '', policy = '', counted = ''] = /^:(\S+) (ACCEPT|DROP) \[(\d+):\d+\]$/.exec(line) ?? [];
  return chain === '' ? ['', 0] : [`-P ${chain} ${policy}`, Number(counted)];
}
