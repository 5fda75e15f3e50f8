// @module-tag all
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { peek } from '../../../packages/applier/src/state/peek.ts';
import { readTrackedConnection } from '../../../packages/applier/src/kernel/conntrack/conntrack.ts';
import type { Daemon } from '../../netns/cluster-host.ts';
import { type PodName, podAddresses, Shop, type ShopService, shopBundle, tally, until } from './shop.ts';
import type { TalkRecord } from './talk-client.ts';

/** The endpoint of a virtual server that answers, over the changes of a bundle: with real connections through the real `sluiced`. */

let shop: Shop;
/** What `sluiced history -o json` prints. */
interface History {
  readonly items: readonly { readonly what: string }[];
}
beforeAll(async () => {
  shop = await Shop.open();
}, 240_000);
afterAll(() => shop[Symbol.asyncDispose]());

/** Ends it with the test: one that a failed test leaves holds the lock against all later ones. */
function run(): Daemon {
  const daemon = shop.run();
  onTestFinished(() => daemon.stop());
  return daemon;
}

const at = (port: number, weights: Partial<Record<PodName, number>>): Record<string, number> =>
  Object.fromEntries(
    Object.entries(weights).map(([pod, weight]) => [`${podAddresses[pod as PodName]}:${port}`, weight]),
  );
const web = (attributes: string, weights: Partial<Record<PodName, number>>): ShopService => ({
  name: 'web',
  address: '10.96.0.10',
  port: 80,
  protocol: 'tcp',
  attributes,
  real: at(8080, weights),
});
const talk = (weights: Partial<Record<PodName, number>>): ShopService => ({
  ...web('-s rr', weights),
  name: 'talk',
  address: '10.96.0.20',
  real: at(9000, weights),
});
const weightOf = async (service: ShopService, pod: PodName): Promise<number | undefined> => {
  const start = `-a -t ${service.address}:${service.port} -r ${podAddresses[pod]}:`;
  const line = (await shop.servers()).find((one) => one.startsWith(start));
  return line === undefined ? undefined : Number(/-w (\d+)/.exec(line)?.[1]);
};

/** The virtual servers, with the real ones that do not drain. */
const serving = async (): Promise<readonly string[]> => (await shop.servers()).filter((line) => !line.endsWith('-w 0'));

const turns = web('-s rr', { a: 1, b: 1, c: 1 });
const weighted = { ...web('-s wrr', { a: 3, b: 1, c: 0 }), name: 'weighted', address: '10.96.0.11' };
const hashed = { ...web('-s sh', { a: 1, b: 1, c: 1 }), name: 'hashed', address: '10.96.0.12' };
const dns = { ...web('-s rr -p 4', { a: 1, b: 1 }), name: 'dns', protocol: 'udp', address: '10.96.0.13' } as const;

test('applies a release with a Service for each scheduler', { timeout: 600_000 }, async () => {
  // UDP flows end after a second, so that none of them keeps the template of persistence.
  const files = shopBundle([turns, weighted, hashed, dns], '900 120 1');
  expect(await shop.apply(files)).toMatchObject({ exitCode: 0, stderr: '' });
});

test.each([
  ['rr chooses the endpoints in turn', turns, { a: 40, b: 40, c: 40 }],
  ['wrr follows the weights, and skips weight 0', weighted, { a: 90, b: 30 }],
] as const)('%s', { timeout: 600_000 }, async (_title, service, expected) => {
  const seen = tally(await shop.ask(service, 120));
  expect(Object.keys(seen)).toEqual(Object.keys(expected));
  // Both count exactly; a connection of another test may shift a round by one.
  for (const [pod, count] of Object.entries(expected))
    expect(Math.abs((seen[pod] ?? 0) - count)).toBeLessThanOrEqual(1);
});

test('sh keeps a client on one endpoint, whatever its port', async () => {
  expect(new Set(await shop.ask(hashed, 12)).size).toBe(1);
});

test('persistence keeps a client on its endpoint until its time-out', {
  timeout: 600_000,
}, async () => {
  const first = await shop.ask(dns, 8);
  expect(new Set(first).size).toBe(1);
  const listed = ['/usr/sbin/ipvsadm', '-L', '-n', '-c', '--persistent-conn'];
  const templates = async (): Promise<boolean> => (await shop.node.run(listed)).includes(dns.address);
  expect(await templates()).toBe(true);
  await until('the time-out ends', async () => !(await templates()));
  const [next] = await shop.ask(dns, 1);
  expect(next).toMatch(/^[ab]$/);
  expect(next).not.toBe(first[0]);
});

test('an endpoint drains over restarts; its connection lives until it ends, and no weight stays 0', {
  timeout: 600_000,
}, async () => {
  shop.configure('ipvs: { drainSeconds: 600 }');
  const [both, one] = [{ a: 1, b: 1 }, { a: 1 }].map((pods) => shopBundle([web('-s rr', pods), talk(pods)]));
  const file = join(shop.directory, 'talks');
  const talks = (): readonly TalkRecord[] => JSON.parse(readFileSync(file, 'utf8')) as readonly TalkRecord[];
  shop.put(both!);
  let daemon = run();
  await until('both serve', async () => (await weightOf(talk({}), 'b').catch(() => undefined)) === 1);
  const client = join(import.meta.dirname, 'talk-client.ts');
  shop.host('client').start([process.execPath, client, '10.96.0.20', '80', '2', file]);
  await until('a client is connected to both', async () => {
    const named = await shop.host('client').exec(['/usr/bin/cat', file]);
    return named.exitCode === 0 && tally(talks().map((each) => each.with))['b'] === 1;
  });
  shop.put(one!);
  await until('the endpoint drains', async () => (await weightOf(talk({}), 'b')) === 0);
  expect(new Set(await shop.ask(web('', {}), 6))).toEqual(new Set(['a']));
  await daemon.signal('KILL');
  await daemon.ended;
  daemon = run();
  await sleep(5_000);
  const heard = talks().find((each) => each.with === 'b')?.answers ?? 0;
  expect(await weightOf(talk({}), 'b')).toBe(0);
  await until('it still answers', async () => (talks().find((each) => each.with === 'b')?.answers ?? 0) > heard);
  await daemon.signal('KILL');
  await daemon.ended;
  shop.put(both!);
  daemon = run();
  await until(
    'it is an endpoint again',
    async () => (await weightOf(talk({}), 'b')) === 1 && (await weightOf(web('', {}), 'b')) === 1,
  );
  shop.put(one!);
  await until('it drains again', async () => (await weightOf(talk({}), 'b')) === 0);
  expect(talks().every(({ open }) => open)).toBe(true);
  writeFileSync(`${file}.end`, '');
  await until('it is removed after its last connection', async () => (await weightOf(talk({}), 'b')) === undefined);
  shop.configure();
});

test('a failed probe restores the endpoints', { timeout: 600_000 }, async () => {
  const [before, after] = [{ a: 1, b: 1 }, { c: 1 }].map((pods) => shopBundle([web('-s rr', pods)]));
  expect(await shop.apply(before!)).toMatchObject({ exitCode: 0 });
  const good = await serving();
  const check = `ipvsadm -S -n | grep -q -e "-r ${podAddresses.b}:8080 -m -w 1"`;
  shop.configure('probes:', `  - { name: web, attempts: 1, exec: [/bin/sh, -c, '${check}'] }`);
  expect(await shop.apply(after!)).toMatchObject({ exitCode: 4 });
  // The endpoints of the release drain like any removed ones: they may have been given connections meanwhile.
  expect(await serving()).toEqual(good);
  expect(tally(await shop.ask(web('', {}), 8))).toEqual({ a: 4, b: 4 });
  shop.configure();
});

test('deletes UDP flows to a removed endpoint, also to the last one, and no others', {
  timeout: 600_000,
}, async () => {
  const udp = (name: string, address: string, weights: Partial<Record<PodName, number>>): ShopService => ({
    ...web('-s rr', weights),
    name,
    address,
    protocol: 'udp',
  });
  const cart = udp('cart', '10.96.0.31', { c: 1 });
  const search = (weights: Partial<Record<PodName, number>>): ShopService => udp('search', '10.96.0.30', weights);
  // No flow may expire during the test.
  await shop.node.sysctl({ 'net/netfilter/nf_conntrack_udp_timeout': '3600' });
  const kept = async (): Promise<object> => {
    const lines = (await shop.node.run(['/usr/sbin/conntrack', '-L', '-p', 'udp'])).split('\n');
    const all = lines.flatMap((line) => readTrackedConnection(line, 'ipv4') ?? []);
    const answering = ({ address }: ShopService): readonly string[] =>
      all.filter((one) => one.address === address).map(({ answers }) => answers.split(':')[0] ?? '');
    return { search: tally(answering(search({}))), cart: tally(answering(cart)) };
  };
  expect(await shop.apply(shopBundle([search({ a: 1, b: 1 }), cart]))).toMatchObject({ exitCode: 0 });
  await shop.ask(search({}), 6);
  await shop.ask(cart, 2);
  const { a, b, c } = podAddresses;
  expect(await kept()).toEqual({ search: { [a]: 3, [b]: 3 }, cart: { [c]: 2 } });
  expect(await shop.apply(shopBundle([search({ a: 1 }), cart]))).toMatchObject({ exitCode: 0 });
  expect(await kept()).toEqual({ search: { [a]: 3 }, cart: { [c]: 2 } });
  expect(await shop.apply(shopBundle([search({}), cart]))).toMatchObject({ exitCode: 0 });
  expect(await kept()).toEqual({ search: {}, cart: { [c]: 2 } });
});

test('the last endpoint of a Service is removed late, the first one added at once, and neither is a release', {
  timeout: 600_000,
}, async () => {
  const lastAfterSeconds = 5;
  shop.configure(`endpoints: { lastAfterSeconds: ${lastAfterSeconds} }`);
  const lone = (weights: Partial<Record<PodName, number>>): ShopService => ({
    ...web('-s rr', weights),
    name: 'lone',
    address: '10.96.0.45',
  });
  const files = (weights: Partial<Record<PodName, number>>): ReadonlyMap<string, string> =>
    shopBundle([lone(weights), web('-s rr', { b: 1 })]);
  expect(await shop.apply(files({ a: 1 }))).toMatchObject({ exitCode: 0 });
  const active = (): unknown => peek(join(shop.directory, 'state'))?.current;
  const before = active();
  const daemon = run();
  await sleep(2_000);
  const startMs = performance.now();
  shop.put(files({}));
  // The daemon may still be starting: on a busy machine that takes a minute here.
  await until('it has no endpoint', async () => ((await weightOf(lone({}), 'a')) ?? 0) === 0, 200);
  expect(performance.now() - startMs).toBeGreaterThan(lastAfterSeconds * 1000);
  expect(new Set(await shop.ask(lone({}), 2))).toEqual(new Set(['refused']));
  expect(await shop.ask(web('', {}), 2)).toEqual(['b', 'b']);
  shop.put(files({ c: 1 }));
  await until('it has an endpoint', async () => (await weightOf(lone({}), 'c')) === 1, 200);
  expect(await shop.ask(lone({}), 2)).toEqual(['c', 'c']);
  // Rules come first; the journal is written after they were read back.
  const { number } = before as { number: number };
  const isSecond = (): boolean => {
    const now = active() as { number: number; revision: number } | undefined;
    return now?.number === number && now.revision === 2;
  };
  expect(before).toMatchObject({ revision: 0 });
  await until('both are updates of the same generation', async () => isSecond(), 200);
  await daemon.signal('KILL');
  await daemon.ended;
  shop.configure();
});

test('sets that another program empties or destroys are repaired, and the node reports it', {
  timeout: 600_000,
}, async () => {
  const sh = (script: string): Promise<string> => shop.node.run(['sh', '-c', script]);
  const entries = (): Promise<string> => sh('ipset save | grep -E "^add KUBE" | sort || true');
  shop.put(shopBundle([web('-s rr', { a: 1 })]));
  run();
  await until('it serves', async () => (await weightOf(web('', {}), 'a').catch(() => undefined)) === 1);
  // Entries that nothing needs any more go last.
  const good = await until('only its entries are left', async () => {
    const all = await entries();
    return !all.includes('10.96.0.45') && !all.includes(podAddresses.b) && all;
  });
  expect(good).toContain('KUBE-CLUSTER-IP');
  const repairs = async (): Promise<number> => {
    const { items } = JSON.parse((await shop.sluiced('history', '-o', 'json')).stdout) as History;
    return items.filter(({ what }) => what === 'repaired').length;
  };
  const before = await repairs();
  for (const [done, script] of [
    'for set in $(ipset list -n | grep KUBE); do ipset flush $set; done',
    'iptables-nft -t nat -F; iptables-nft -F; for set in $(ipset list -n | grep KUBE); do ipset destroy $set; done',
  ].entries()) {
    await sh(script);
    await until('they are repaired', async () => (await entries()) === good, 400);
    expect(await shop.ask(web('', {}), 2)).toEqual(['a', 'a']);
    // It is written down after the rules were read back.
    await until('the repair is reported', async () => (await repairs()) > before + done, 400);
  }
});

test('foreign state stays, and cleanup leaves nothing of ours', { timeout: 600_000 }, async () => {
  const sh = (script: string): Promise<string> => shop.node.run(['sh', '-c', script]);
  const keys = 'net.ipv4.vs.conntrack net.ipv4.vs.expire_nodest_conn net.ipv4.ip_forward';
  expect(await shop.sluiced('cleanup')).toMatchObject({ exitCode: 0 });
  await sh('ipvsadm -A -t 192.0.2.200:443 -s wlc && ipvsadm -a -t 192.0.2.200:443 -r 192.0.2.12:443 -g');
  await sh('ipset create OTHERS hash:ip && ip addr add 192.0.2.200/32 dev lo && ip addr add 10.96.0.40/32 dev lo');
  const state = (): Promise<string> =>
    sh(`ipvsadm -S -n; ipset save; ip -br addr; sysctl ${keys}; iptables-nft-save | grep -E 'KUBE|SLUICE' || true`);
  const before = await state();
  const held = { ...web('-s rr', { a: 1 }), name: 'held', address: '10.96.0.40' };
  const files = shopBundle([web('-s rr', { a: 1 }), held]);
  await sh('ipvsadm -A -t 10.96.0.10:80 -s wlc');
  const refused = await shop.apply(files);
  expect([refused.exitCode, refused.stderr]).toEqual([3, expect.stringContaining('NODE_SERVERS_NOT_OURS')]);
  await sh('ipvsadm -D -t 10.96.0.10:80');
  expect(await state()).toEqual(before);
  expect(await shop.apply(files)).toMatchObject({ exitCode: 0 });
  expect(await shop.servers()).toContain('-A -t 192.0.2.200:443 -s wlc');
  const bound = await sh('ip -br addr show dev kube-ipvs0');
  expect([bound.includes('10.96.0.10/32'), bound.includes('10.96.0.40')]).toEqual([true, false]);
  expect([...(await shop.ask(web('', {}), 2)), ...(await shop.ask(held, 2))]).toEqual(['a', 'a', 'a', 'a']);
  expect(await shop.sluiced('cleanup')).toMatchObject({ exitCode: 0 });
  expect(await state()).toEqual(before);
});
