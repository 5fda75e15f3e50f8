import { KernelError } from '../../ports/failure.ts';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ipvsBundle } from '../../../../bundle/src/virtual/bundle.fixture.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';

let self: Scene = scene();
afterEach(() => self.end());

const webFile = 'profiles/default/services/shop/web.ipvs';
const web = '10.96.0.10:80/TCP';

/** The bundle in mode ipvs with one file edited. */
function bundle(edit: (text: string) => string = (text) => text): Map<string, string> {
  return new Map([...ipvsBundle, [webFile, edit(ipvsBundle.get(webFile) ?? '')]]);
}

const withoutSecond = bundle((text) => text.replace('-a -t 10.96.0.10:80 -r 10.244.2.6:8080 -m -w 1\n', ''));

async function real(): Promise<Record<string, number>> {
  const servers = (await self.kernel.ipvs.observe()).servers;
  return Object.fromEntries([...(servers.get(web)?.real ?? [])].map(([endpoint, { weight }]) => [endpoint, weight]));
}

const natChains = (): readonly string[] => self.kernel.save('ipv4').match(/(?<=^:)KUBE-\S+/gm) ?? [];
const kinds = (from: number): readonly string[] => [
  ...new Set(self.kernel.taken.slice(from).map((step) => ('table' in step ? step.table : step.kind))),
];

test('adds sets, servers, rules and then addresses, and removes them all on cleanup', async () => {
  self = scene();
  const { reconciler } = await self.start();
  expect(await reconciler.put(bundle(), true)).toMatchObject({ kind: 'confirmed' });
  expect(kinds(0)).toEqual(['set-sysctl', 'ipset', 'ipvsadm', 'filter', 'nat', 'ip']);
  expect((await self.kernel.ipvs.observe()).bound?.ipv4.size).toBe(4);
  await reconciler.cleanup();
  const seen = await self.kernel.ipvs.observe();
  expect([seen.servers.size, seen.sets.size, seen.bound]).toEqual([0, 0, undefined]);
});

test('sets sysctls of an unloaded module after the rules that load it', async () => {
  self = scene({ sysctls: {} });
  await (await self.start()).reconciler.put(bundle(), true);
  expect(kinds(0)).toEqual(['ipset', 'ipvsadm', 'filter', 'nat', 'set-sysctl', 'ip']);
});

/** The state that a kube-proxy in mode ipvs and keepalived left. */
async function leaveProxy(): Promise<void> {
  const take = (kind: 'ipset' | 'ipvsadm' | 'ip', ...lines: readonly string[]): Promise<void> =>
    self.kernel.ipvs.apply({ kind, text: lines.map((line) => `${line}\n`).join(''), because: '' });
  await take('ipset', 'create KUBE-NODE-PORT-TCP bitmap:port range 0-65535', 'add KUBE-NODE-PORT-TCP 30099');
  await take('ipvsadm', '-A -t 10.96.0.10:80 -s rr', '-a -t 10.96.0.10:80 -r 10.244.9.9:80 -m -w 1');
  await take('ipvsadm', '-A -t 192.0.2.11:30099 -s rr', '-A -t 203.0.113.99:80 -s lc');
  await take('ip', 'link add kube-ipvs0 type dummy', 'addr add 10.96.0.10/32 dev kube-ipvs0');
}

test.each([
  ['a bundle in mode ipvs', bundle()],
  ['a bundle in mode iptables', sampleBundle({ families: ['ipv4'] })],
])(
  "kube-proxy's state of mode ipvs is refused, taken over by %s when asked to, and comes back",
  async (_title, files) => {
    self = scene();
    await leaveProxy();
    const before = await self.kernel.ipvs.observe();
    const outcome = await (await self.start()).reconciler.put(files, true);
    expect(outcome).toMatchObject({
      refusal: { problems: [{ code: 'NODE_SERVERS_NOT_OURS', hint: expect.stringContaining('takeOver: kube-proxy') }] },
    });
    const [problem] = (outcome.kind === 'refused' && outcome.refusal.problems) || [];
    expect(problem?.hint, 'what serves is not deleted').toMatch(/`sluiced adopt`(?!.*(?:cleanup|delete))/);
    self.kubeProxies = [42];
    expect(await (await self.start({ takeOver: true })).reconciler.put(files, true)).toMatchObject({
      refusal: { problems: [{ hint: expect.stringContaining('process 42') }] },
    });
    self.kubeProxies = [];
    const { reconciler, journal } = await self.start({ takeOver: true });
    expect(await reconciler.put(files, true)).toMatchObject({ kind: 'confirmed' });
    const between = await self.kernel.ipvs.observe();
    expect(between.servers.get(web)?.real.has('10.244.9.9:80') ?? false).toBe(between.bound !== undefined);
    expect(between.servers.has('192.0.2.11:30099/TCP'), 'its node port went').toBe(false);
    expect(between.servers.get('203.0.113.99:80/TCP')?.scheduler, 'keepalived keeps its own').toBe('lc');
    const zero = await journal.generation(0);
    expect(zero && (await reconciler.rollBackTo(zero))).toMatchObject({ kind: 'confirmed' });
    for (let waits = 0; waits < 2; waits++) await reconciler.repair();
    expect(await self.kernel.ipvs.observe()).toEqual(before);
  },
);

test('refuses beside a table of kube-proxy in mode nftables, also with takeOver', async () => {
  self = scene();
  self.kernel.hasProxyTable = true;
  expect(await (await self.start({ takeOver: true })).reconciler.put(bundle(), true)).toMatchObject({
    refusal: { problems: [{ code: 'NODE_CHAINS_NOT_OURS', hint: expect.stringContaining('run `sluiced adopt`') }] },
  });
  expect(self.kernel.taken).toEqual([]);
});

const timed = (line: string): Map<string, string> =>
  new Map([...bundle(), ['profiles/default/base/first.ipvs', line === '' ? '' : `${line}\n`]]);
const timeouts = async (): Promise<unknown> => Object.values((await self.kernel.ipvs.observe()).timeouts ?? {});

describe.each(['flat', 'tree'] as const)('time-outs, in layout %s', (layout) => {
  beforeEach(() => {
    self = scene();
    self.layout = layout;
  });
  const confirmed = { kind: 'confirmed' };

  test('are restored when no state sets them, over restarts, and after a cleanup', async () => {
    expect(await (await self.start()).reconciler.put(timed('--set 60 0 0'), false)).toMatchObject(confirmed);
    expect(await timeouts()).toEqual([60, 120, 300]);
    expect(await (await self.start()).reconciler.put(timed('--set 0 0 30'), false)).toMatchObject(confirmed);
    expect(await timeouts()).toEqual([900, 120, 30]);
    const plain = sampleBundle({ families: ['ipv4'] });
    expect(await (await self.start()).reconciler.put(plain, false)).toMatchObject(confirmed);
    expect(await timeouts()).toEqual([900, 120, 300]);
    const last = await self.start();
    expect(await last.reconciler.put(timed('--set 60 0 0'), false)).toMatchObject(confirmed);
    await last.reconciler.cleanup();
    expect(await timeouts()).toEqual([900, 120, 300]);
    expect(last.journal.originalTimeouts).toBeUndefined();
  });

  test.each(['', '--set 0 0 30'])('are restored when a release is rolled back: %j', async (line) => {
    const { reconciler } = await self.start();
    await reconciler.put(timed(line), false);
    const before = await timeouts();
    let asked = 0;
    self.health = () => asked++ === 0;
    expect((await reconciler.put(timed('--set 60 60 60'), false)).kind).toBe('rolled-back');
    expect(await timeouts()).toEqual(before);
  });

  test('are not touched on a node that has left mode ipvs', async () => {
    const { reconciler } = await self.start();
    await reconciler.put(timed('--set 60 0 0'), false);
    await reconciler.put(sampleBundle({ families: ['ipv4'] }), false);
    await self.kernel.ipvs.apply({ kind: 'ipvsadm', text: '--set 7 7 7\n', because: 'keepalived' });
    let asked = 0;
    self.health = () => asked++ === 0;
    const other = sampleBundle({ services: { 'shop/new': [1] }, families: ['ipv4'] });
    expect((await reconciler.put(other, false)).kind).toBe('rolled-back');
    await reconciler.cleanup();
    expect(await timeouts()).toEqual([7, 7, 7]);
  });
});

test('takes no step for the same bundle, nor to reconcile', async () => {
  self = scene();
  const { reconciler } = await self.start();
  await reconciler.put(bundle(), true);
  expect(await reconciler.put(bundle(), true)).toMatchObject({ kind: 'same' });
  expect(await reconciler.repair()).toBe(0);
});

test('drains a removed real server over a restart until its connections have ended', async () => {
  self = scene();
  const first = await self.start();
  await first.reconciler.put(bundle(), true);
  await first.reconciler.put(withoutSecond, true);
  expect(await real()).toEqual({ '10.244.1.5:8080': 1, '10.244.2.6:8080': 0 });
  const second = await self.start();
  expect(second.journal.draining).toMatchObject([{ server: web, real: '10.244.2.6:8080' }]);
  self.kernel.ipvs.open.set(web, new Map([['10.244.2.6:8080', 1]]));
  await second.reconciler.repair();
  expect(await real()).toEqual({ '10.244.1.5:8080': 1, '10.244.2.6:8080': 0 });
  self.kernel.ipvs.open.clear();
  await second.reconciler.repair();
  expect(await real()).toEqual({ '10.244.1.5:8080': 1 });
  expect(second.journal.draining).toEqual([]);
});

test('ends a drain at the limit of the config', async () => {
  self = scene();
  let now = 0;
  const { reconciler } = await self.start(
    {},
    { clock: { now: () => now, sleep: async () => undefined, bootMs: () => 0 }, drainMs: 5_000 },
  );
  await reconciler.put(bundle(), true);
  await reconciler.put(withoutSecond, true);
  self.kernel.ipvs.open.set(web, new Map([['10.244.2.6:8080', 1]]));
  now = 4_999;
  await reconciler.repair();
  expect(await real()).toEqual({ '10.244.1.5:8080': 1, '10.244.2.6:8080': 0 });
  now = 5_000;
  await reconciler.repair();
  expect(await real()).toEqual({ '10.244.1.5:8080': 1 });
});

test('refuses the bundle on a kernel without mode ipvs', async () => {
  self = scene();
  const { reconciler } = await self.start();
  self.kernel.ipvs.observe = () => Promise.reject(new KernelError('ipvsadm', 'Protocol not available', 'refused'));
  expect(await reconciler.put(bundle(), true)).toMatchObject({
    refusal: { problems: [{ code: 'NODE_LACKS_NEED', hint: expect.stringContaining('modprobe ip_vs') }] },
  });
  expect(self.kernel.taken).toEqual([]);
});

test('reads only what is not known, and verifies what it touched', async () => {
  self = scene();
  const { reconciler } = await self.start();
  await reconciler.put(bundle(), true);
  const given: (readonly string[])[] = [];
  const observe = self.kernel.ipvs.observe.bind(self.kernel.ipvs);
  self.kernel.ipvs.observe = (known) => {
    given.push(Object.keys(known ?? {}).toSorted());
    return observe(known);
  };
  await reconciler.put(withoutSecond, true);
  expect(given).toEqual([
    ['addresses', 'servers', 'sets', 'timeouts'],
    ['addresses', 'sets', 'timeouts'],
  ]);
});

test('refuses a missing scheduler before anything is touched, and does not rehearse known ones again', async () => {
  self = scene();
  const { reconciler } = await self.start();
  await reconciler.put(bundle(), true);
  self.kernel.rehearse = () => Promise.reject(new KernelError('ipvsadm', 'No such file or directory', 'refused'));
  const { length } = self.kernel.taken;
  const other = bundle((text) => text.replace('-A -t 10.96.0.10:80 -s rr', '-A -t 10.96.0.10:80 -s mh'));
  expect(await reconciler.put(other, true)).toMatchObject({
    refusal: { problems: [{ code: 'NODE_REFUSES_RULES', message: expect.stringContaining('No such file') }] },
  });
  expect(self.kernel.taken).toHaveLength(length);
  expect(await reconciler.put(withoutSecond, true)).toMatchObject({ kind: 'confirmed' });
});

test('restores a lowered weight when a probe fails', async () => {
  self = scene();
  const { reconciler } = await self.start();
  await reconciler.put(bundle(), true);
  let asked = 0;
  self.health = () => asked++ === 0;
  // Both are replaced at once: that is a release.
  const replaced = bundle((text) =>
    text
      .replace('-a -t 10.96.0.10:80 -r 10.244.2.6:8080 -m -w 1\n', '')
      .replace('-t 10.96.0.10:80 -r 10.244.1.5:8080', '-t 10.96.0.10:80 -r 10.244.3.7:8080'),
  );
  expect(await reconciler.put(replaced, true)).toMatchObject({ kind: 'rolled-back' });
  expect(await real()).toMatchObject({ '10.244.1.5:8080': 1, '10.244.2.6:8080': 1 });
});

test('repairs a weight of 0 and a removed server', async () => {
  self = scene();
  const { reconciler } = await self.start();
  await reconciler.put(bundle(), true);
  const text = '-e -t 10.96.0.10:80 -r 10.244.1.5:8080 -m -w 0\n-D -t 192.0.2.50:80\n';
  await self.kernel.ipvs.apply({ kind: 'ipvsadm', text, because: '' });
  expect(await reconciler.repair()).toBe(1);
  expect(await real()).toEqual({ '10.244.1.5:8080': 1, '10.244.2.6:8080': 1 });
});

test('refuses a bundle with a foreign virtual server, which stays unchanged', async () => {
  self = scene();
  const { reconciler } = await self.start();
  await self.kernel.ipvs.apply({ kind: 'ipvsadm', text: '-A -t 10.96.0.10:80 -s lc\n', because: '' });
  const outcome = await reconciler.put(bundle(), true);
  expect(outcome).toMatchObject({ refusal: { problems: [{ code: 'NODE_SERVERS_NOT_OURS' }] } });
  expect((await self.kernel.ipvs.observe()).servers.get(web)?.scheduler).toBe('lc');
});

test('changes from iptables to ipvs and back without leftovers', async () => {
  self = scene();
  const { reconciler } = await self.start();
  const old = sampleBundle({ families: ['ipv4'] });
  await reconciler.put(old, true);
  const before = natChains();
  const { length } = self.kernel.taken;
  expect(await reconciler.put(bundle(), true)).toMatchObject({ kind: 'confirmed' });
  expect(natChains().filter((name) => /SVC|SEP/.test(name))).toEqual([]);
  // Without the addresses the new nat rules would leave packets without a way to virtual servers.
  expect(kinds(length)).toEqual(['set-sysctl', 'ipset', 'ipvsadm', 'filter', 'ip', 'nat']);
  expect(await reconciler.put(old, true)).toMatchObject({ kind: 'confirmed' });
  expect(natChains().toSorted()).toEqual(before.toSorted());
  expect((await self.kernel.ipvs.observe()).bound).toBeUndefined();
});

const tracked = new Map([...bundle(), ['profiles/default/base/sysctl.conf', 'net.ipv4.vs.conntrack = 1\n']]);

test('connections are tracked before packets of a node that leaves mode iptables meet virtual servers', async () => {
  self = scene({ sysctls: {} });
  const { reconciler } = await self.start();
  await reconciler.put(sampleBundle({ families: ['ipv4'] }), true);
  const { length } = self.kernel.taken;
  expect(await reconciler.put(tracked, true)).toMatchObject({ kind: 'confirmed' });
  expect(kinds(length)).toEqual(['ipset', 'ipvsadm', 'filter', 'set-sysctl', 'ip', 'nat']);
});

test('ends as it began when any line of a change of mode fails', async () => {
  for (let step = 0; step < 4; step++) {
    self = scene();
    await (await self.start()).reconciler.put(sampleBundle({ families: ['ipv4'] }), true);
    const before = natChains();
    // A process that has read the kernel for this change does not retry.
    const { reconciler } = await self.start();
    self.kernel.ipvs.failAt = { step: self.kernel.ipvs.taken.length + step, lines: 1 };
    const outcome = await reconciler.put(bundle(), true);
    const seen = await self.kernel.ipvs.observe();
    expect([outcome.kind, seen.servers.size, seen.sets.size, natChains()]).toEqual(
      step < 3 ? ['rolled-back', 0, 0, before] : ['confirmed', 5, 17, natChains()],
    );
    self.end();
  }
});

test('leaves nothing behind after a crash in the middle', async () => {
  self = scene();
  const dying = await self.start(
    {},
    { operator: { ask: () => new Promise(() => undefined), forget: () => undefined, shows: () => undefined } },
  );
  void dying.reconciler.put(bundle(), true);
  await expect.poll(async () => (await self.kernel.ipvs.observe()).bound?.ipv4.size).toBe(4);
  const { reconciler } = await self.start();
  expect(await reconciler.recover()).toMatchObject({ kind: 'rolled-back' });
  const seen = await self.kernel.ipvs.observe();
  expect([seen.servers.size, seen.sets.size, seen.bound]).toEqual([0, 0, undefined]);
});
