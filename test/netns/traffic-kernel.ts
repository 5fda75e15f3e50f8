import { isIPv6 } from 'node:net';
import { isDeepStrictEqual } from 'node:util';
import type { Connect, Reply } from './agent.ts';
import type { Cluster, ClusterSpec } from './cluster.ts';
import { machineAt, nodeOf, sourceOf } from './traffic-places.ts';
import type { PacketTable, Row, Verdict } from './traffic-table.ts';

/** The most connections for one row: enough to meet each of four endpoints, but for one case in 10^7. */
const attemptsMax = 64;
/** The fewest, so that a wrong endpoint has its chance to answer. */
const attemptsMin = 4;
/** Every machine here is at most two hops away, on one host. */
export const usualPace: Pace = { atOnce: 50, silenceMs: 1_000 };
/** How long an answer may take on a machine that is busy with other tests. */
const answerMs = 10_000;

/** Verdicts that name no machine. */
const endings: ReadonlySet<Verdict> = new Set(['drop', 'reject', 'pass', 'accept']);

/** How connections are opened. */
export interface Pace {
  /** The number of rows that are observed side by side. */
  readonly atOnce: number;
  /** A silence this long is a drop. */
  readonly silenceMs: number;
}

/**
 * Opens the connections of a row for real and reports their results, in the words of the row's `expect`.
 * @returns every verdict seen; one that only the tracer could tell from an expected one is taken for the expected one
 */
export async function observe(
  cluster: Cluster,
  table: PacketTable,
  row: Row,
  pace: Pace = usualPace,
): Promise<readonly Verdict[]> {
  const silent = row.expect.every((verdict) => endings.has(verdict));
  const wanted = connectOf(row, silent ? pace.silenceMs : answerMs);
  const answers = row.expect.some((verdict) => !endings.has(verdict));
  const seen = new Set<Verdict>();
  for (let attempt = 0; attempt < (answers ? attemptsMax : 1); attempt++) {
    const causes = causesOf(cluster.spec, table, row, await cluster.host(row.from).connect(wanted));
    const verdict = causes.find((cause) => row.expect.includes(cause)) ?? causes.join(' or ');
    seen.add(verdict);
    if (!row.expect.includes(verdict)) break;
    const done = row.stays || row.expect.every((expected) => seen.has(expected));
    if (done && attempt + 1 >= attemptsMin) break;
  }
  // With affinity one client meets one endpoint only, any of them.
  const stayed = row.stays && seen.size === 1 && row.expect.some((expected) => seen.has(expected));
  return stayed ? row.expect : [...seen];
}

function connectOf(row: Row, timeoutMs: number): Connect {
  const { address, port, protocol } = row.to;
  if (protocol === 'sctp') throw new Error(`Cannot open ${row.title}: SCTP is not available here`);
  return { to: address, port, protocol, timeoutMs, ...(row.source === undefined ? {} : { from: row.source }) };
}

const silences = { refused: ['reject'], timeout: ['drop'], unreachable: [] } as const;

/**
 * The verdicts that would lead to a reply. A refusal comes from a REJECT or from a closed port, a silence from a DROP or from an unused
 * address; and a pod cannot tell whether a node has masqueraded a packet of the node itself.
 */
function causesOf(spec: ClusterSpec, table: PacketTable, row: Row, reply: Reply): readonly Verdict[] {
  const source = sourceOf(spec, row);
  const pass = isDeepStrictEqual(reply, untouched(spec, table, row, source)) ? ['pass', 'accept'] : [];
  if (reply.kind !== 'answer') return [...silences[reply.kind], ...pass];
  const { answer, seenAs } = reply;
  const plain = seenAs === source ? [answer] : [];
  const masked = nodeOf(spec, row)?.addresses.includes(seenAs) ? [`masquerade ${answer}`] : [];
  const known = [...plain, ...masked, ...pass];
  return known.length > 0 ? known : [`${answer} seeing ${seenAs}`];
}

/** The reply where no Service rule matches: from the owner of the address, or from the edge of the test network. */
function untouched(spec: ClusterSpec, table: PacketTable, row: Row, source: string): Reply {
  const { address, port, protocol } = row.to;
  const owner = machineAt(spec, row.from, address);
  if (owner === undefined) return { kind: protocol === 'tcp' && !isIPv6(address) ? 'unreachable' : 'timeout' };
  const ports = spec.pods.find((pod) => pod.name === owner)?.ports ?? table.listen[owner] ?? [];
  return ports.includes(`${port}/${protocol}`)
    ? { kind: 'answer', answer: owner, seenAs: source }
    : { kind: 'refused' };
}

/** Starts the servers besides those of the pods. */
export async function serveExtras(cluster: Cluster, table: PacketTable): Promise<void> {
  const extras = [...Object.entries(table.listen), ['outside', table.outside.ports] as const];
  for (const [name, ports] of extras) {
    for (const text of ports) {
      const [port, protocol] = text.split('/');
      await cluster.host(name).serve(protocol === 'udp' ? 'udp' : 'tcp', Number(port));
    }
  }
}

/** Rows at the same time, except those that need another route from outside: they run node by node. */
export async function observeAll(
  cluster: Cluster,
  table: PacketTable,
  rows: readonly Row[],
  pace: Pace = usualPace,
): Promise<Map<Row, readonly Verdict[]>> {
  const seen = new Map<Row, readonly Verdict[]>();
  for (const [via, group] of Map.groupBy(rows, (row) => row.via)) {
    if (via !== undefined) for (const { to } of group) await cluster.enterAt(to.address, via);
    for (let at = 0; at < group.length; at += pace.atOnce) {
      const some = group.slice(at, at + pace.atOnce);
      await Promise.all(some.map(async (row) => seen.set(row, await observe(cluster, table, row, pace))));
    }
  }
  return seen;
}
