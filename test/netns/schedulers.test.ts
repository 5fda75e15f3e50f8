// @module-tag test
import { fileURLToPath } from 'node:url';
import { randomOf, seed } from '@sluice/testing';
import {
  frontendLines,
  type MaglevSize,
  maglevSizes,
  type NftScheduler,
  type NftState,
  printNft,
} from '@sluice/netfilter';
import { beforeEach, describe, expect, test } from 'vitest';
import { planNftInPlace } from '../../packages/applier/src/ports/nftables/plan.ts';
import { Host } from './cluster-host.ts';
import { needKernel } from './privileges.ts';

/**
 * Schedulers and weights of mode nftables in a kernel: which endpoint answers a connection, by its client's address and port. A node is a
 * namespace in which all endpoints are addresses of the loopback interface.
 */

beforeEach(needKernel);

const program = fileURLToPath(new URL('./flow-endpoints.ts', import.meta.url));

/** A connection: its client's address and port, and the Service. */
interface Flow {
  readonly from: string;
  readonly port: number;
  readonly to: string;
}

class Node implements AsyncDisposable {
  readonly #host: Host;

  private constructor(host: Host) {
    this.#host = host;
  }

  static async start(name: string): Promise<Node> {
    const host = await Host.start(name);
    const routes = [
      'sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.lo.disable_ipv6=0 net.ipv6.ip_nonlocal_bind=1',
      'ip link set lo up',
      'ip route add local 10.244.0.0/16 dev lo',
      'ip route add local 10.1.0.0/16 dev lo',
      'ip route add 10.96.0.0/16 dev lo src 127.0.0.1',
      'ip -6 route add local fd00:244::/64 dev lo',
      'ip -6 route add local fd00:1::/64 dev lo',
      'ip -6 route add fd00:96::/64 dev lo',
    ];
    await host.run(['sh', '-ec', routes.join('\n')]);
    return new Node(host);
  }

  async load(text: string): Promise<void> {
    await this.#host.run(['nft', '-f', '-'], { input: text });
  }

  /** @returns the address of the endpoint that answered each flow, in their order; one after the other if `atOnce` is 1 */
  async answers(flows: readonly Flow[], atOnce = 64): Promise<readonly string[]> {
    const input = JSON.stringify({ flows, atOnce });
    const output = await this.#host.run([process.execPath, program], { input, timeoutMs: 120_000 });
    return JSON.parse(output) as readonly string[];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#host.close();
  }
}

const pods = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, at) => `10.244.0.${at + 1} . 8080`);
const pods6 = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, at) => `fd00:244::${at + 1} . 8080`);
const addressOf = (endpoint: string): string => endpoint.slice(0, endpoint.indexOf(' '));

interface Lists {
  readonly scheduler?: NftScheduler;
  readonly weights?: ReadonlyMap<string, number>;
}

const settings = [
  'table 1 address',
  ...['pods', 'keep'].flatMap((kind) => [`${kind} 10.0.0.0/8`, `${kind} fd00::/16`]),
];

/** Frontends by address, all at port 80/TCP. */
const stateOf = (frontends: Readonly<Record<string, Lists & { readonly endpoints: readonly string[] }>>): NftState => ({
  settings,
  frontends: new Map(
    Object.entries(frontends).map(([address, lists]) => [
      `${address} . tcp . 80`,
      frontendLines({ isClusterIP: true, ranges: [], local: [], ...lists }),
    ]),
  ),
});

/** Flows of random clients, each once. */
function flowsTo(to: string, count: number): readonly Flow[] {
  const random = randomOf(seed);
  const found = new Map<string, Flow>();
  while (found.size < count) {
    const from = to.includes(':')
      ? `fd00:1::${(1 + Math.floor(random() * 60_000)).toString(16)}`
      : `10.1.${Math.floor(random() * 250)}.${1 + Math.floor(random() * 250)}`;
    const port = 10_000 + Math.floor(random() * 50_000);
    found.set(`${from} ${port}`, { from, port, to });
  }
  return [...found.values()];
}

const countOf = (answers: readonly string[]): ReadonlyMap<string, number> =>
  new Map([...Map.groupBy(answers, (one) => one)].map(([one, all]) => [one, all.length]));

/** Five standard deviations: one run in a million is beyond. */
function isWithinBounds(count: number, all: number, share: number): boolean {
  return Math.abs(count - all * share) <= 5 * Math.sqrt(all * share * (1 - share));
}

const percent = (share: number): string => `${(share * 100).toFixed(2)} %`;

describe('maglev', () => {
  test('a flow whose next hop changes to another node keeps its endpoint', async () => {
    await using one = await Node.start('one');
    await using other = await Node.start('other');
    const scheduler = 'maglev 1009';
    await one.load(
      printNft(
        stateOf({
          '10.96.0.10': { endpoints: pods(100), scheduler },
          'fd00:96::a': { endpoints: pods6(100), scheduler },
        }),
      ),
    );
    // The other node had other endpoints before, and has its list in another order.
    const before = planNftInPlace(
      { mend: [], held: undefined, exists: false },
      stateOf({ '10.96.0.10': { endpoints: pods(60), scheduler } }),
    );
    for (const { text } of before.first) await other.load(text);
    const after = planNftInPlace(
      { mend: [], held: before.first.at(-1)?.leadsTo, exists: true },
      stateOf({
        'fd00:96::a': { endpoints: pods6(100).toReversed(), scheduler },
        '10.96.0.10': { endpoints: pods(100).toReversed(), scheduler },
      }),
    );
    for (const { text } of [...after.first, ...after.late]) await other.load(text);
    for (const to of ['10.96.0.10', 'fd00:96::a']) {
      const flows = flowsTo(to, 1000);
      const [here, there] = [await one.answers(flows), await other.answers(flows)];
      const kept = here.filter((endpoint, at) => endpoint === there[at]).length / flows.length;
      console.log(
        `seed ${seed}: ${percent(kept)} of ${flows.length} flows to ${to} keep their endpoint at the other node`,
      );
      expect(new Set(here).size).toBeGreaterThan(90);
      expect(kept).toBeGreaterThanOrEqual(0.99);
    }
  });

  test.each<[MaglevSize, number]>([
    [251, 0.12],
    [1009, 0.06],
    [10_007, 0.03],
  ])('of a table of %d slots, few other flows move when one of 100 endpoints leaves', async (size, most) => {
    await using node = await Node.start('one');
    const scheduler = `maglev ${size}` as const;
    const list = pods(100);
    const left = list[41] ?? '';
    const loaded = planNftInPlace(
      { mend: [], held: undefined, exists: false },
      stateOf({ '10.96.0.10': { endpoints: list, scheduler } }),
    );
    for (const { text } of loaded.first) await node.load(text);
    const flows = flowsTo('10.96.0.10', 1500);
    const before = await node.answers(flows);
    const fresh = stateOf({ '10.96.0.10': { endpoints: list.filter((one) => one !== left), scheduler } });
    const change = planNftInPlace({ mend: [], held: loaded.first.at(-1)?.leadsTo, exists: true }, fresh);
    for (const { text } of [...change.first, ...change.late]) await node.load(text);
    const after = await node.answers(flows);
    const others = before.flatMap((endpoint, at) => (endpoint === addressOf(left) ? [] : [at]));
    const moved = others.filter((at) => after[at] !== before[at]).length / others.length;
    console.log(`seed ${seed}, M = ${size}: ${percent(moved)} of ${others.length} other flows move`);
    expect(after).not.toContain(addressOf(left));
    expect(moved).toBeLessThanOrEqual(most);
  });
});

describe('shares of endpoints are those of their weights', () => {
  const [light, heavy] = pods(2) as [string, string];
  const weights = new Map([[heavy, 3]]);
  const shares = new Map([
    [addressOf(light), 0.25],
    [addressOf(heavy), 0.75],
  ]);

  test.each<[string, NftScheduler | undefined]>([
    ['random', undefined],
    ['source-hash', 'source-hash'],
    ...maglevSizes.map((size) => [`maglev of ${size} slots`, `maglev ${size}`] as [string, NftScheduler]),
  ])('%s', async (title, scheduler) => {
    await using node = await Node.start('one');
    await node.load(
      printNft(stateOf({ '10.96.0.10': { endpoints: [light, heavy], weights, ...(scheduler ? { scheduler } : {}) } })),
    );
    const flows = flowsTo('10.96.0.10', 1500);
    const counts = countOf(await node.answers(flows));
    const shown = [...counts].map(([address, count]) => `${address} ${percent(count / flows.length)}`).toSorted();
    console.log(`seed ${seed}, ${title}: ${shown.join(', ')}`);
    expect([...counts.keys()].toSorted()).toEqual([...shares.keys()].toSorted());
    for (const [address, share] of shares)
      expect(isWithinBounds(counts.get(address) ?? 0, flows.length, share)).toBe(true);
  });

  test('round-robin', async () => {
    await using node = await Node.start('one');
    await node.load(
      printNft(stateOf({ '10.96.0.10': { endpoints: [light, heavy], weights, scheduler: 'round-robin' } })),
    );
    const counts = countOf(await node.answers(flowsTo('10.96.0.10', 200), 1));
    expect(Object.fromEntries(counts)).toEqual({ [addressOf(light)]: 50, [addressOf(heavy)]: 150 });
  });
});

test('round-robin: Services that are used in turn do not take turns from each other', async () => {
  await using node = await Node.start('one');
  const lists = { endpoints: pods(2), scheduler: 'round-robin' } as const;
  await node.load(printNft(stateOf({ '10.96.0.10': lists, '10.96.0.11': lists })));
  const flows = flowsTo('10.96.0.10', 40).map((flow, at) => ({ ...flow, to: `10.96.0.1${at % 2}` }));
  const answers = await node.answers(flows, 1);
  const first = answers.filter((_, at) => at % 2 === 0);
  expect(Object.fromEntries(countOf(first))).toEqual({ '10.244.0.1': 10, '10.244.0.2': 10 });
  expect(first.every((one, at) => at === 0 || one !== first[at - 1])).toBe(true);
});

test('source-hash: all connections of a client go to one endpoint, while the list is the same', async () => {
  await using node = await Node.start('one');
  await node.load(printNft(stateOf({ '10.96.0.10': { endpoints: pods(5), scheduler: 'source-hash' } })));
  const flows = Array.from(
    { length: 200 },
    (_, at): Flow => ({
      from: `10.1.0.${1 + (at % 20)}`,
      port: 20_000 + at,
      to: '10.96.0.10',
    }),
  );
  const answers = await node.answers(flows);
  const met = Map.groupBy(answers.entries(), ([at]) => flows[at]?.from);
  expect([...met.values()].map((all) => new Set(all.map(([, endpoint]) => endpoint)).size)).toEqual(
    Array.from({ length: 20 }, () => 1),
  );
  expect(new Set(answers).size).toBeGreaterThan(2);
});
