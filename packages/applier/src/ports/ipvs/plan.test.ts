import { compareText, type IpvsState, virtualKey } from '@sluice/netfilter';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { FakeIpvs } from '../../kernel/fake/ipvs-fake.fixture.ts';
import { limits } from '../../limits.ts';
import { ipvsConflicts } from '../../apply/plan/virtual.ts';
import { ipvsSteps, planIpvs } from './plan.ts';
import { server, set, state, states } from './states.fixture.ts';
import { type Drain, type IpvsOwned, type IpvsPlan, type ObservedIpvs, emptyIpvs, ownedBy } from './values.ts';

const options = { now: 1_000, drainMs: 60_000, excludeCIDRs: [] };
const vip = '10.96.0.1:80/TCP';

interface Planned {
  readonly kernel: FakeIpvs;
  readonly plan: IpvsPlan;
}

/** Brings a kernel to each state in turn; the plan is that to the last one. */
async function through(all: readonly IpvsState[], draining: readonly Drain[] = []): Promise<Planned> {
  const kernel = new FakeIpvs({ ipv4: ['192.0.2.11'] });
  let owned = ownedBy(emptyIpvs);
  let plan = planIpvs(await kernel.observe(), emptyIpvs, owned, draining, options);
  for (const desired of all) {
    owned = ownedBy(...all);
    plan = planIpvs(await kernel.observe(), desired, owned, plan.draining, options);
    for (const step of ipvsSteps(plan)) await kernel.apply(step);
  }
  return { kernel, plan };
}

const texts = (plan: IpvsPlan): readonly string[] => ipvsSteps(plan).map(({ kind, text }) => `${kind}: ${text}`);

const sorted = <T>(list: readonly (readonly [string, T])[]): ReadonlyMap<string, T> =>
  new Map(list.toSorted(([a], [b]) => compareText(a, b)));

/** Without the real servers that drain. */
function settled(observed: ObservedIpvs, draining: readonly Drain[]): object {
  const drains = new Set(draining.map(({ server: name, real }) => `${name} ${real}`));
  const servers = [...observed.servers].map(([key, one]) => {
    const real = [...one.real].filter(([endpoint]) => !drains.has(`${key} ${endpoint}`));
    return [key, { ...one, real: sorted(real) }] as const;
  });
  return { servers: sorted(servers), sets: observed.sets, bound: observed.bound?.ipv4 ?? new Set() };
}

function settledState(desired: IpvsState): object {
  const servers = [...desired.virtualServers].map(
    ([key, one]) => [key, { ...one, real: sorted([...one.real]) }] as const,
  );
  return { servers: sorted(servers), sets: desired.sets, bound: new Set(desired.addresses.ipv4) };
}

test('reaches the desired state, and the next plan is empty', async () => {
  await fc.assert(
    fc.asyncProperty(states, states, async (from, to) => {
      const { kernel, plan } = await through([from, to]);
      const observed = await kernel.observe();
      expect(settled(observed, plan.draining)).toEqual(settledState(to));
      const again = planIpvs(observed, to, ownedBy(from, to), plan.draining, options);
      expect([texts(again), again.draining]).toEqual([[], plan.draining]);
    }),
    runs(300),
  );
});

test('can roll back from wherever a plan stops', async () => {
  await fc.assert(
    fc.asyncProperty(states, states, fc.nat({ max: 9 }), fc.nat({ max: 3 }), async (from, to, step, lines) => {
      const { kernel } = await through([from]);
      const owned = ownedBy(from, to);
      const there = planIpvs(await kernel.observe(), to, owned, [], options);
      kernel.failAt = { step: kernel.taken.length + step, lines };
      try {
        for (const one of ipvsSteps(there)) await kernel.apply(one);
      } catch {
        // The step is expected to fail.
      }
      kernel.failAt = undefined;
      const back = planIpvs(await kernel.observe(), from, owned, there.draining, options);
      for (const one of ipvsSteps(back)) await kernel.apply(one);
      expect(settled(await kernel.observe(), back.draining)).toEqual(settledState(from));
    }),
    runs(300),
  );
});

test('keeps a serving real server at every line if there is one before and after', async () => {
  await fc.assert(
    fc.asyncProperty(states, states, async (from, to) => {
      const serves = (servers: IpvsState['virtualServers'], key: string): boolean =>
        [...(servers.get(key)?.real.values() ?? [])].some(({ weight }) => weight > 0);
      const steady = [...from.virtualServers.keys()].filter(
        (key) => serves(from.virtualServers, key) && serves(to.virtualServers, key),
      );
      const { kernel } = await through([from]);
      for (const step of ipvsSteps(planIpvs(await kernel.observe(), to, ownedBy(from, to), [], options)))
        for (const line of step.text.split(/(?<=\n)/)) {
          await kernel.apply({ ...step, text: line });
          const { servers } = await kernel.observe();
          for (const key of steady) expect(serves(servers, key)).toBe(true);
        }
    }),
    runs(200),
  );
});

test('leaves foreign objects of any name unchanged', async () => {
  await fc.assert(
    fc.asyncProperty(states, states, async (from, foreign) => {
      const { kernel } = await through([from, foreign]);
      const before = await kernel.observe();
      const none: IpvsOwned = ownedBy(emptyIpvs);
      expect(texts(planIpvs(before, emptyIpvs, none, [], options))).toEqual([]);
    }),
  );
});

test('replaces one endpoint in two lines, in two batches', async () => {
  const before = server(vip, { '10.244.1.1:8080': 1, '10.244.1.2:8080': 1 });
  const after = server(vip, { '10.244.1.2:8080': 1, '10.244.1.3:8080': 1 });
  const { plan } = await through([state([before]), state([after])]);
  expect(texts(plan)).toEqual([
    'ipvsadm: -a -t 10.96.0.1:80 -r 10.244.1.3:8080 -m -w 1\n',
    'ipvsadm: -e -t 10.96.0.1:80 -r 10.244.1.1:8080 -m -w 0\n',
  ]);
  expect(plan.draining).toEqual([{ server: vip, real: '10.244.1.1:8080', until: 61_000 }]);
});

test('restores the weight of a draining real server that is desired again', async () => {
  const both = state([server(vip, { '10.244.1.1:8080': 2, '10.244.1.2:8080': 1 })]);
  const one = state([server(vip, { '10.244.1.2:8080': 1 })]);
  const { plan } = await through([both, one, both]);
  expect(texts(plan)).toEqual(['ipvsadm: -e -t 10.96.0.1:80 -r 10.244.1.1:8080 -m -w 2\n']);
  expect(plan.draining).toEqual([]);
});

test('counts the time of a drain from its start, also after further changes', async () => {
  const both = server(vip, { '10.244.1.1:8080': 1, '10.244.1.2:8080': 1 });
  const one = state([server(vip, { '10.244.1.2:8080': 1 })]);
  const { kernel, plan } = await through([state([both]), one]);
  const later = planIpvs(await kernel.observe(), one, ownedBy(one), plan.draining, { ...options, now: 50_000 });
  expect(later.draining[0]?.until).toBe(61_000);
});

test.each([
  ['of UDP', '10.96.0.1:53/UDP', {}],
  ['of SCTP', '10.96.0.3:2905/SCTP', {}],
  ['of scheduler dh, which would still choose it', vip, { scheduler: 'dh' }],
  ['of scheduler sh without its fallback', vip, { scheduler: 'sh' }],
] as const)('a real server %s leaves at once', async (_title, name, rest) => {
  const before = server(name, { '10.244.1.1:8080': 1, '10.244.1.2:8080': 1 }, rest);
  const after = server(name, { '10.244.1.2:8080': 1 }, rest);
  const { plan } = await through([state([before]), state([after])]);
  expect(plan.remove.map(({ text }) => text.split(' ')[0])).toEqual(['-d']);
  expect(plan.draining).toEqual([]);
});

test('scheduler sh with its fallback drains', async () => {
  const rest = { scheduler: 'sh', flags: ['sh-fallback'] } as const;
  const { plan } = await through([
    state([server(vip, { '10.244.1.1:8080': 1 }, rest)]),
    state([server(vip, {}, rest)]),
  ]);
  expect(plan.draining).toHaveLength(1);
});

test('adds a virtual server before its address, and removes the address before it', async () => {
  const desired = state([server(vip, { '10.244.1.1:8080': 1 })], [set('KUBE-CLUSTER-IP', '10.96.0.1,tcp:80')]);
  const { plan: there } = await through([desired]);
  expect(ipvsSteps(there).map(({ kind }) => kind)).toEqual(['ipset', 'ipvsadm', 'ip']);
  const { plan: back } = await through([desired, emptyIpvs]);
  expect(texts(back)).toEqual([
    'ip: link del kube-ipvs0\n',
    'ipvsadm: -D -t 10.96.0.1:80\n',
    'ipset: destroy KUBE-CLUSTER-IP\n',
  ]);
});

test('does not bind an address of another interface', async () => {
  const { plan } = await through([state([server('192.0.2.11:30080/TCP')])]);
  expect(plan.bind).toEqual([]);
});

test('keeps the interface while it has a foreign address', async () => {
  const { kernel } = await through([state([server(vip)]), state([server(vip), server('10.96.0.9:80/TCP')])]);
  const plan = planIpvs(await kernel.observe(), emptyIpvs, ownedBy(state([server(vip)])), [], options);
  expect(texts(plan)).toEqual(['ip: addr del 10.96.0.1/32 dev kube-ipvs0\n', 'ipvsadm: -D -t 10.96.0.1:80\n']);
});

test('neither changes nor removes excluded virtual servers', async () => {
  const { kernel } = await through([state([server(vip, { '10.244.1.1:8080': 1 })])]);
  const observed = await kernel.observe();
  const excluded = { ...options, excludeCIDRs: ['10.96.0.0/16'] };
  const owned = ownedBy(state([server(vip)]));
  expect(planIpvs(observed, state([server(vip)]), owned, [], excluded).weights).toEqual([]);
  expect(planIpvs(observed, emptyIpvs, owned, [], excluded).remove.map(({ kind }) => kind)).toEqual(['ip']);
});

test('fills and swaps a set that lacks many entries, or room', async () => {
  const many = Array.from({ length: limits.setEntriesInPlaceMax + 1 }, (_, n) => `10.97.${n >> 8}.${n & 255},tcp:80`);
  const small = state([], [set('KUBE-CLUSTER-IP', '10.96.0.1,tcp:80')]);
  const large = state([], [set('KUBE-CLUSTER-IP', ...many)]);
  const { kernel, plan } = await through([small, large]);
  const verbs = plan.sets[0]?.text.split('\n').map((line) => line.split(' ')[0]);
  expect(verbs?.slice(-3)).toEqual(['swap', 'destroy', '']);
  expect([...(await kernel.observe()).sets.values()].map(({ entries }) => entries)).toEqual([new Set(many)]);
  const roomy = state([], [{ ...set('KUBE-CLUSTER-IP', '10.96.0.1,tcp:80'), maxElements: 131_072 }]);
  const { kernel: other } = await through([small, roomy]);
  expect((await other.observe()).sets.get('KUBE-CLUSTER-IP')?.maxElements).toBe(131_072);
});

test('destroys a set that was being filled during a crash', async () => {
  const { kernel } = await through([state([], [set('KUBE-CLUSTER-IP')])]);
  await kernel.apply({
    kind: 'ipset',
    text: 'create SLUICE-NEXT-3 hash:ip family inet hashsize 1024 maxelem 65536\n',
    because: '',
  });
  const plan = planIpvs(await kernel.observe(), state([], [set('KUBE-CLUSTER-IP')]), ownedBy(emptyIpvs), [], options);
  expect(texts(plan)).toEqual(['ipset: destroy SLUICE-NEXT-3\n']);
});

test('adds source ranges before the firewall set, and removes them after it', async () => {
  const ranges = set('KUBE-LOAD-BALANCER-SOURCE-CIDR', '203.0.113.9,tcp:80,198.51.100.0/24');
  const firewall = set('KUBE-LOAD-BALANCER-FW', '203.0.113.9,tcp:80');
  const empty = state([], [set(firewall.name), set(ranges.name)]);
  const full = state([], [firewall, ranges]);
  const { plan: there } = await through([empty, full]);
  expect(there.sets[0]?.text.match(/KUBE-\S+/g)).toEqual([ranges.name, firewall.name]);
  const { plan: back } = await through([full, empty]);
  expect(back.remove[0]?.text.match(/KUBE-\S+/g)).toEqual([firewall.name, ranges.name]);
});

test.each([
  ['changes nothing if 0 keeps the values', { tcp: 0, tcpFin: 0, udp: 0 }, []],
  ['changes no equal values', { tcp: 900, tcpFin: 0, udp: 300 }, []],
  ['sets what differs', { tcp: 600, tcpFin: 0, udp: 300 }, ['ipvsadm: --set 600 0 300\n']],
])('a state with time-outs %s', async (_title, timeouts, expected) => {
  const { kernel } = await through([]);
  expect(texts(planIpvs(await kernel.observe(), { ...emptyIpvs, timeouts }, ownedBy(emptyIpvs), [], options))).toEqual(
    expected,
  );
});

test('refuses foreign servers and sets by name', async () => {
  const desired = state([server(vip), server('10.96.0.2:80/TCP')], [set('KUBE-CLUSTER-IP')]);
  const { kernel } = await through([desired]);
  const observed = await kernel.observe();
  expect(ipvsConflicts(observed, desired, ownedBy(desired))).toEqual([]);
  const problems = ipvsConflicts(observed, desired, ownedBy(state([server(vip)])));
  expect(problems.map(({ code }) => code)).toEqual(['NODE_SERVERS_NOT_OURS', 'NODE_SERVERS_NOT_OURS']);
  expect(problems[0]?.message).toContain('10.96.0.2:80/TCP');
  const foreign = { ...observed, servers: new Map(), foreign: new Set([virtualKey(server(vip))]) };
  expect(ipvsConflicts(foreign, desired, ownedBy(desired))[0]?.message).toContain(vip);
});
