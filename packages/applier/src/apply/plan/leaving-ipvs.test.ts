import { afterEach, expect, test } from 'vitest';
import { ipvsBundle } from '../../../../bundle/src/virtual/bundle.fixture.ts';
import { limits } from '../../limits.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { type Scene, scene, steppingClock } from '../../testing/scene.fixture.ts';
import type { Offers } from '../transaction/offers.ts';

/** What a node that leaves mode ipvs has until its connections have ended. */

let self: Scene = scene();
afterEach(() => self.end());

const web = '10.96.0.10:80/TCP';
const withSysctls = (text: string): Map<string, string> =>
  new Map([...ipvsBundle, ['profiles/default/base/sysctl.conf', text]]);
const tracked = withSysctls('net.ipv4.vs.conntrack = 1\n');

test.each([
  ['iptables, in layout flat', 'flat', 'iptables', ['filter']],
  ['iptables, in layout tree', 'tree', 'iptables', ['nat', 'filter']],
  ['nftables', 'tree', 'nftables', ['filter']],
] as const)(
  'connections are tracked, and packets to addresses filtered, as long as there are virtual servers: to mode %s',
  async (_title, layout, mode, tables) => {
    self = scene();
    self.layout = layout;
    const { reconciler } = await self.start();
    await reconciler.put(tracked, true);
    const { length } = self.kernel.taken;
    expect(await reconciler.put(sampleBundle({ families: ['ipv4'], mode }), true)).toMatchObject({ kind: 'confirmed' });
    const steps = self.kernel.taken
      .slice(length)
      .map((step) => ('key' in step ? `${step.key} = ${step.value}` : 'table' in step ? step.table : step.kind));
    expect(steps.slice(steps.indexOf('ip'))).toEqual([
      'ip',
      'ipvsadm',
      ...tables,
      'ipset',
      'net.ipv4.vs.conntrack = 0',
    ]);
  },
);

/** Whether packets to addresses of virtual servers, at other ports, are kept from the node's own programs. */
const isFiltered = (): boolean =>
  /^-A INPUT .*-j KUBE-IPVS-FILTER$(.|\n)*^-A KUBE-IPVS-FILTER .*-j REJECT/m.test(self.kernel.save('ipv4'));

test.each([
  ['flat', 'iptables'],
  ['tree', 'iptables'],
  ['tree', 'nftables'],
] as const)(
  'packets to bound addresses are filtered on probation, also when endpoints arrive: in layout %s, to mode %s',
  async (layout, mode) => {
    self = scene();
    self.layout = layout;
    await (await self.start()).reconciler.put(ipvsBundle, true);
    const asked: boolean[] = [];
    self.health = () => asked.push(isFiltered()) > 0;
    const files = (endpoints: readonly number[]): Map<string, string> =>
      sampleBundle({ services: { 'shop/web': endpoints }, families: ['ipv4'], mode });
    const newer = [{ files: files([1, 2, 3]), onlyEndpoints: false }];
    const offers: Offers = {
      arrival: () => (newer.length > 0 ? Promise.resolve() : new Promise(() => undefined)),
      look: async () => newer.shift(),
    };
    const report = (event: string): void => void self.events.push(event);
    const probation = { seconds: 20, deadmanSeconds: 30, mode: 'auto', decisionSeconds: 600, sources: [] } as const;
    const { reconciler } = await self.start({ probation }, { clock: steppingClock(), report });
    expect(await reconciler.put(files([1, 2]), true, offers)).toMatchObject({ kind: 'confirmed' });
    expect(self.events).toContain('endpoints-updated');
    expect(asked.length).toBeGreaterThan(3);
    expect(new Set(asked)).toEqual(new Set([true]));
    expect(self.kernel.save('ipv4')).not.toContain('KUBE-IPVS');
    expect(await reconciler.differences()).toEqual([]);
  },
);

const strict = 'net.ipv4.conf.all.arp_ignore = 1\nnet.ipv4.conf.all.arp_announce = 2\n';
const arp = (): Promise<readonly unknown[]> =>
  Promise.all(
    (['arp_ignore', 'arp_announce'] as const).map((key) => self.kernel.readSysctl(`net.ipv4.conf.all.${key}`)),
  );

test.each([
  ['flat', 'iptables'],
  ['tree', 'iptables'],
  ['tree', 'nftables'],
] as const)(
  'addresses are not answered for by ARP as long as they are bound: in layout %s, to mode %s',
  async (layout, mode) => {
    self = scene();
    self.layout = layout;
    const { reconciler } = await self.start();
    await reconciler.put(withSysctls(strict), true);
    const { length } = self.kernel.taken;
    expect(await reconciler.put(sampleBundle({ families: ['ipv4'], mode }), true)).toMatchObject({ kind: 'confirmed' });
    const left = self.kernel.taken.slice(length);
    const unbound = left.findIndex(({ kind }) => kind === 'ip');
    expect(unbound).toBeGreaterThan(0);
    expect(left.findIndex((step) => 'key' in step && step.key.includes('.arp_'))).toBeGreaterThan(unbound);
    expect(await arp()).toEqual([0, 0]);
  },
);

test('a profile of mode iptables that sets such a key itself has it on probation', async () => {
  self = scene();
  const seen: unknown[] = [];
  self.health = () => {
    void arp().then((values) => seen.push(values));
    return true;
  };
  const files = new Map([...sampleBundle({ families: ['ipv4'] }), ['profiles/default/base/sysctl.conf', strict]]);
  expect(await (await self.start()).reconciler.put(files, true)).toMatchObject({ kind: 'confirmed' });
  expect(seen.at(-1)).toEqual([1, 2]);
});

test.each(['flat', 'tree'] as const)(
  'a node that leaves mode ipvs for layout %s waits a short time for the end of connections that IPVS forwards',
  async (layout) => {
    self = scene();
    self.layout = layout;
    await (await self.start()).reconciler.put(ipvsBundle, true);
    self.kernel.ipvs.open.set(web, new Map([['10.244.1.5:8080', 2]]));
    const told: unknown[] = [];
    const report = (event: string, details: object): void => void (event === 'ipvs-left' && told.push(details));
    const { reconciler } = await self.start({}, { clock: steppingClock(), report });
    expect(await reconciler.put(sampleBundle({ families: ['ipv4'] }), true)).toMatchObject({ kind: 'confirmed' });
    expect(told).toMatchObject([{ ended: 2, waitedMs: limits.ipvsEndMsMax }]);
    expect((await self.kernel.ipvs.observe()).bound).toBeUndefined();
  },
);
