// @module-tag test
import { orProblems } from '../../packages/review/src/bundle/node.ts';
import { type BundleFiles, nodesOf, resolveNode } from '@sluice/bundle';
import { type Packet, printEndpoint, printNft, readNft } from '@sluice/netfilter';
import { atTier, randomOf, seed } from '@sluice/testing';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { diffBundles } from '../../packages/review/src/diff/diff.ts';
import type { Branch } from '../../packages/review/src/flows/flow.ts';
import { proveBundle } from '../../packages/review/src/prove/prove.ts';
import { needKernel } from '../netns/privileges.ts';
import { wireProgram } from '../parity/binaries.ts';
import type { Built } from '../parity/build.ts';
import { nodeAddresses, nodeName } from '../parity/clusters.ts';
import { type Probe, type ProbeOutcome, WiredNode } from '../parity/wire.ts';
import { HeaderSpaceJudge, packetsOf } from './header-space.ts';
import { declared, differingKinds, mutateLinked, neutralKinds, refusedKinds } from './linked-changes.ts';
import { pick } from './mutate.ts';
import { generatedNodes, type NamedNode, writtenNodes } from './nft-bundles.ts';

/**
 * Mistakes in the linked text of a node, in a kernel: of the table before and the table with the mistake, the packet that `diff` or `prove`
 * names has the two outcomes that it says; and where no packet should tell both apart, random ones do not.
 */

const mutants = atTier({ quick: 5, test: 20, all: 500 });
const clusters = atTier({ quick: 1, test: 3, all: 11 });
/** Of a list of eight endpoints one is missed once in 10^5. */
const tries = 100;
/** What is dropped gives no answer. */
const quietMs = 150;
/** Random packets for a mutant that changes nothing. */
const randomPackets = 20;
const neutralMutants = atTier({ quick: 2, test: 4, all: 60 });

let wire: Built;
let node: WiredNode;
let nodes: readonly NamedNode[];
beforeAll(async () => {
  wire = await wireProgram();
  if ('lack' in wire) return;
  nodes = [...writtenNodes(), ...(await generatedNodes(clusters, 6))].filter(isWired);
  node = await WiredNode.start('mutants', wire.path);
}, 180_000);
afterAll(() => node?.close());
beforeEach((context) => {
  needKernel(context);
  if ('lack' in wire) context.skip(wire.lack);
});

/** The wires lead to a node with these addresses and pods. */
const isWired = ({ linked }: NamedNode): boolean => {
  const [name = ''] = nodesOf(linked.files);
  const resolved = resolveNode(linked.files, name);
  const { ipv4 } = 'version' in resolved ? (resolved.nodeFile.values as { ipv4?: { address?: string } }) : {};
  return name === nodeName && ipv4?.address === nodeAddresses[0];
};

/** The outcome of a packet, as `diff` and `prove` tell it. */
interface Told {
  readonly branches: readonly Pick<Branch, 'verdict' | 'to' | 'masquerade'>[];
  readonly affinity?: string | undefined;
  readonly scheduler?: string | undefined;
}

/** A packet that tells a table from the one with a mistake. */
interface Claim {
  readonly packet: Packet;
  readonly before: Told;
  readonly after: Told;
}

interface Drawn {
  readonly on: NamedNode;
  readonly kind: string;
  readonly what: string;
  readonly files: BundleFiles;
  readonly claim: Claim;
}

test('packets that diff and prove name have the outcomes that these say', { timeout: 600_000 }, async () => {
  const wrong: string[] = [];
  const drawn = drawAll(randomOf(seed));
  for (const [on, some] of Map.groupBy(drawn, (one) => one.on)) {
    await load(on.linked.files);
    const befores = await ask(some.map(({ claim }) => claim.packet));
    for (const [at, { claim, files, what }] of some.entries()) {
      await load(files);
      const [after] = await ask([claim.packet]);
      const seen = [
        { told: claim.before, words: befores[at]! },
        { told: claim.after, words: after! },
      ];
      const isWrong = seen.some(({ told, words }) => !possible(claim.packet, told).includes(words));
      const text = seen.map(({ told, words }) => `${words} (${possible(claim.packet, told).join(' or ')})`).join(' → ');
      if (isWrong) wrong.push(`${on.title}: ${what}\n  ${JSON.stringify(claim.packet)}: ${text}`);
    }
  }
  const counts = Map.groupBy(drawn, ({ kind }) => kind);
  const sent = [...counts].map(([kind, some]) => `${kind}: ${some.length} sent`);
  const hidden = [...unsent].map(
    ([kind, { wires, answers }]) =>
      `${kind}: ${wires} not sent, because no wire takes the packets; ${answers}, because an answer is possible in both tables`,
  );
  const missing = differingKinds.filter((kind) => !counts.has(kind));
  const reasons = { ...neverSent, ...seldomSent };
  const never = [
    ...missing.flatMap((kind) => (reasons[kind] === undefined ? [] : [`${kind}: ${reasons[kind]}`])),
    `${refusedKinds.join(', ')}: no node loads them`,
    `${neutralKinds.join(', ')}: no packet is treated differently`,
  ];
  console.log([...sent, ...hidden, ...never].join('\n'));
  expect(wrong).toEqual([]);
  expect(drawn.length).toBe(mutants);
  const isEachDrawn = mutants > differingKinds.length;
  const lost = missing.filter((kind) => seldomSent[kind] === undefined);
  expect(isEachDrawn ? lost : Object.keys(neverSent)).toEqual(Object.keys(neverSent));
});

/** Mutants of each kind in turn. Times of affinity, and a mistake that shows only in packets that the wires cannot send, are left out. */
function drawAll(random: () => number): readonly Drawn[] {
  const drawn: Drawn[] = [];
  const order = differingKinds.map((kind) => ({ kind, at: random() })).toSorted((a, b) => a.at - b.at);
  const sendable = new Set(order.map(({ kind }) => kind));
  while (drawn.length < mutants && sendable.size > 0) {
    for (const kind of sendable) {
      const one =
        drawn.length < mutants
          ? draw(kind, random, drawn.length % 2 === 0 || kind === declared ? claimsOfDiff : claimsOfProof)
          : undefined;
      if (one) drawn.push(one);
      else sendable.delete(kind);
    }
  }
  return drawn;
}

const drawsMax = 300;

/** Mutants that were drawn, and whose packets do not show them. */
const unsent = new Map<string, { wires: number; answers: number }>();

/** Kinds that packets in a row cannot show. */
const neverSent: Readonly<Record<string, string>> = {
  'time of affinity': 'shown only by a client that comes back after the shorter of both times',
};

/** Kinds that packets in a row show on some nodes alone. */
const seldomSent: Readonly<Record<string, string>> = {
  'weight of an endpoint':
    'shown where an endpoint loses all of its slots; netns/schedulers.test.ts counts the shares of weights',
};

function countUnsent(kind: string, claims: readonly Claim[]): void {
  const count = unsent.get(kind) ?? { wires: 0, answers: 0 };
  count[claims.some(({ packet }) => isSendable(packet)) ? 'answers' : 'wires']++;
  unsent.set(kind, count);
}

function draw(
  kind: string,
  random: () => number,
  claimsOf: (before: BundleFiles, after: BundleFiles) => readonly Claim[],
): Drawn | undefined {
  for (let n = 0; n < drawsMax; n++) {
    const on = pick(nodes, random);
    const mutant = mutateLinked(on.linked, kind, random);
    const all = mutant ? claimsOf(on.linked.files, mutant.files) : [];
    const claims = all.filter(isShown);
    if (claims.length === 0 && all.length > 0) countUnsent(kind, all);
    if (mutant && claims.length > 0) return { on, kind, ...mutant, claim: pick(claims, random) };
  }
  return undefined;
}

function claimsOfDiff(before: BundleFiles, after: BundleFiles): readonly Claim[] {
  const diff = orProblems(() => diffBundles(before, after));
  return 'flows' in diff
    ? diff.flows.map(({ packet, old, new: fresh }) => ({ packet, before: old, after: fresh }))
    : [];
}

/** What `prove` expects is what the table without the mistake does. */
function claimsOfProof(_before: BundleFiles, after: BundleFiles): readonly Claim[] {
  const proof = orProblems(() => proveBundle(after));
  if (!('counterExamples' in proof)) return [];
  return proof.counterExamples.map(({ packet, expected, found }) => {
    const verdict = expected.kind === 'endpoints' || expected.kind === 'unclaimed' ? 'pass' : expected.kind;
    const told = expected.kind === 'endpoints' ? expected : { branches: [{ verdict, masquerade: false }] };
    return { packet, before: told, after: found };
  });
}

/** Whether the wires can send the packet, and no answer to it is possible in both tables. */
function isShown({ packet, before, after }: Claim): boolean {
  const [was, is] = [possible(packet, before), possible(packet, after)];
  return isSendable(packet) && !was.some((words) => is.includes(words));
}

/**
 * The node has many addresses on its wires, and IPv6 addresses of the examples are not among them. To the first address of an IPv6 network
 * that a route without a gateway leads to, the kernel sends no ICMP error, because it may be an anycast address: a table that rejects and one
 * that drops look alike (`icmpv6_route_lookup` in net/ipv6/icmp.c asks `ipv6_anycast_destination`).
 */
const isSendable = ({ in: incoming = 'eth0', family, source, destination }: Packet): boolean =>
  ['pod0', 'eth0'].includes(incoming) &&
  !(family === 'ipv6' && source.endsWith('::')) &&
  [source, destination].every(
    (address) => !isMore(address) && (family === 'ipv4' || !address.startsWith('2001:db8:2:')),
  );

const isMore = (address: string): boolean => /^192\.0\.2\.1\d\d$|^fd00::1:/.test(address);

/** The words for everything that a client can see who asks often: all endpoints; by affinity or by its address always the same one. */
function possible(packet: Packet, { branches, affinity, scheduler }: Told): readonly string[] {
  const words = branches.map((branch) => toldWord(packet, branch));
  return affinity === undefined && scheduler !== 'source-hash' ? [inOrder(words)] : [...new Set(words)];
}

const inOrder = (words: readonly string[]): string => [...new Set(words)].toSorted().join(' | ');

/** Ports of the node itself are closed: what it gets without translation it refuses. */
const isOwn = (address: string): boolean =>
  nodeAddresses.some((own) => own === address) || /^127\.|^::1$/.test(address);

function toldWord(packet: Packet, { verdict, to, masquerade }: Told['branches'][number]): string {
  const { destination, port } = packet;
  if (verdict === 'reject' || verdict === 'drop') return verdict;
  if (to === undefined)
    return isOwn(destination) ? 'reject' : wordOf(packet, printEndpoint(destination, port), masquerade);
  return wordOf(packet, to, masquerade);
}

function seenWords(packet: Packet, outcomes: readonly ProbeOutcome[]): string {
  const isLocal = outcomes.some(({ kind, target }) => kind === 'local' && target !== packet.destination);
  // The kernel may refuse for the closed port of an endpoint before the far end has seen the packet there.
  const seen = isLocal ? outcomes.filter(({ kind }) => kind !== 'reject') : outcomes;
  return inOrder(
    seen.map(({ kind, source, target = '', port = 0 }) => {
      if (kind === 'reject' || kind === 'drop') return kind;
      if (kind === 'local' && target === packet.destination && port === packet.port) return 'reject';
      return wordOf(packet, printEndpoint(target, port), source !== packet.source);
    }),
  );
}

/** The kernel chooses among the addresses of the node itself, so that its own packets do not show whether they are masqueraded. */
const wordOf = (packet: Packet, place: string, masquerade: boolean): string =>
  packet.in !== undefined && masquerade ? `masquerade ${place}` : place;

async function load(files: BundleFiles): Promise<void> {
  const [name = ''] = nodesOf(files);
  const resolved = resolveNode(files, name);
  const state = 'version' in resolved && resolved.nft ? readNft(resolved.nft) : undefined;
  if (!state || 'problems' in state) throw new Error('the node refuses a bundle that diff and prove take');
  const input = `add table inet sluice\ndelete table inet sluice\n${printNft(state)}`;
  await node.host.run(['nft', '-f', '-'], { input });
}

let sport = 0;

/** Sends each packet often. @returns what came out of each, in words */
async function ask(packets: readonly Packet[]): Promise<readonly string[]> {
  if (sport + packets.length * tries > 50_000) {
    await node.forgetConnections();
    sport = 0;
  }
  const probes = packets.flatMap((packet) => Array.from({ length: tries }, () => probeOf(packet)));
  const outcomes = await node.send(probes, quietMs);
  return packets.map((packet, at) => seenWords(packet, outcomes.slice(at * tries, (at + 1) * tries)));
}

const probeOf = ({ in: via = '', protocol, source, destination, port }: Packet): Probe => ({
  via: via as Probe['via'],
  protocol,
  source,
  sport: 10_000 + sport++,
  target: destination,
  port,
});

test('random packets do not tell a mistake that changes nothing', { timeout: 300_000 }, async () => {
  const random = randomOf(seed + 1);
  const wrong: string[] = [];
  for (let n = 0; n < neutralMutants; ) {
    const on = pick(nodes, random);
    const mutant = mutateLinked(on.linked, pick(neutralKinds, random), random);
    if (!mutant || new HeaderSpaceJudge(on.linked.files).difference(mutant.files) !== undefined) continue;
    n++;
    const all = packetsOf(on.linked.files, mutant.files).filter(isSendable);
    const packets = Array.from({ length: randomPackets }, () => pick(all, random));
    await load(on.linked.files);
    const before = await ask(packets);
    await load(mutant.files);
    const after = await ask(packets);
    for (const [at, packet] of packets.entries()) {
      const [was, is] = [before[at]!, after[at]!];
      if (was !== is && !isChoice(was, is))
        wrong.push(`${on.title}: ${mutant.what}\n  ${JSON.stringify(packet)}: ${was} → ${is}`);
    }
  }
  expect(wrong).toEqual([]);
});

/** Whether two clients with affinity have met one endpoint each. */
const isChoice = (...seen: readonly string[]): boolean =>
  seen.every((words) => /^(?:masquerade )?\S+:\d+$/.test(words) && !words.includes(' | '));
