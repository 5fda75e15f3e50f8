import { compareText, type IpvsState, virtualKey } from '@sluice/bundle';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { FakeIpvs } from '../kernel/ipvs-fake.ts';
import { limits } from '../limits.ts';
import { ipvsConflicts } from './conflicts.ts';
import { ipvsSteps, planIpvs } from './plan.ts';
import { server, set, state, states } from './states.fixture.ts';
import { type Drain, type IpvsOwned, type IpvsPlan, type ObservedIpvs, nothing, ownedBy } from './values.ts';

const options = { now: 1_000, drainMs: 60_000, excludeCIDRs: [] };
const vip = '10.96.0.1:80/TCP';

interface Planned {
  readonly kernel: FakeIpvs;
  readonly plan: IpvsPlan;
}

/** Brings a kernel to each state in turn; the plan is that to the last one. */
async function through(all: readonly IpvsState[], draining: readonly Drain[] = []): Promise<Planned> {
  const kernel = new FakeIpvs({ ipv4: ['192.0.2.11'] });
  let owned = ownedBy(nothing);
  let plan = planIpvs(await kernel.observe(), nothing, owned, draining, options);
  for (const wanted of all) {
    owned = ownedBy(...all);
    plan = planIpvs(await kernel.observe(), wanted, owned, plan.draining, options);
    for (const step of ipvsSteps(plan)) await kernel.apply(step);
  }
  return { kernel, plan };
}

const texts = (plan: IpvsPlan): readonly string[] => ipvsSteps(plan).map(({ kind, text }) => `${kind}: ${text}`);

const sorted = <T>(list: readonly (readonly [string, T])[]): ReadonlyMap<string, T> =>
  new Map(list.toSorted(([a], [b]) => compareText(a, b)));

/** Without the real servers that drain. */
function settled(seen: ObservedIpvs, draining: readonly Drain[]): object {
  const drains = new Set(draining.map(({ server: name, real }) => `${name} ${real}`));
  const servers = [...seen.servers].map(([key, one]) => {
    const real = [...one.real].filter(([endpoint]) => !drains.has(`${key} ${endpoint}`));
    return [key, { ...one, real: sorted(real) }] as const;
  });
  return { servers: sorted(servers), sets: seen.sets, bound: seen.bound?.ipv4 ?? new Set() };
}

function settledState(wanted: IpvsState): object {
  const servers = [...wanted.virtualServers].map(
    ([key, one]) => [key, { ...one, real: sorted([...one.real]) }] as const,
  );
  return { servers: sorted(servers), sets: wanted.sets, bound: new Set(wanted.addresses.ipv4) };
}

test('a plan reaches its goal, and the plan behind it is empty', async () => {
  await fc.assert(
    fc.asyncProperty(states, states, async (from, to) => {
      const { kernel, plan } = await through([from, to]);
      const seen = await kernel.observe();
      expect(settled(seen, plan.draining)).toEqual(settledState(to));
      const again = planIpvs(seen, to, ownedBy(from, to), plan.draining, options);
      expect([texts(again), again.draining]).toEqual([[], plan.draining]);
    }),
    runs(300),
  );
});

test('from wherever a plan breaks off there is a way back', async () => {
  await fc.assert(
    fc.asyncProperty(states, states, fc.nat({ max: 9 }), fc.nat({ max: 3 }), async (from, to, step, lines) => {
      const { kernel } = await through([from]);
      const owned = ownedBy(from, to);
      const there = planIpvs(await kernel.observe(), to, owned, [], options);
      kernel.failAt = { step: kernel.taken.length + step, lines };
      try {
        for (const one of ipvsSteps(there)) await kernel.apply(one);
      } catch {
        // It was meant to.
      }
      kernel.failAt = undefined;
      const back = planIpvs(await kernel.observe(), from, owned, there.draining, options);
      for (const one of ipvsSteps(back)) await kernel.apply(one);
      expect(settled(await kernel.observe(), back.draining)).toEqual(settledState(from));
    }),
    runs(300),
  );
});

test('at every line a virtual server that serves before and after has somebody who serves', async () => {
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

test('what others made stays, whatever it is called', async () => {
  await fc.assert(
    fc.asyncProperty(states, states, async (from, foreign) => {
      const { kernel } = await through([from, foreign]);
      const before = await kernel.observe();
      const none: IpvsOwned = ownedBy(nothing);
      expect(texts(planIpvs(before, nothing, none, [], options))).toEqual([]);
    }),
  );
});

test('one endpoint that goes is two lines, in two batches', async () => {
  const before = server(vip, { '10.244.1.1:8080': 1, '10.244.1.2:8080': 1 });
  const after = server(vip, { '10.244.1.2:8080': 1, '10.244.1.3:8080': 1 });
  const { plan } = await through([state([before]), state([after])]);
  expect(texts(plan)).toEqual([
    'ipvsadm: -a -t 10.96.0.1:80 -r 10.244.1.3:8080 -m -w 1\n',
    'ipvsadm: -e -t 10.96.0.1:80 -r 10.244.1.1:8080 -m -w 0\n',
  ]);
  expect(plan.draining).toEqual([{ server: vip, real: '10.244.1.1:8080', until: 61_000 }]);
});

test('a real server that drains and is wanted again gets its weight back', async () => {
  const both = state([server(vip, { '10.244.1.1:8080': 2, '10.244.1.2:8080': 1 })]);
  const one = state([server(vip, { '10.244.1.2:8080': 1 })]);
  const { plan } = await through([both, one, both]);
  expect(texts(plan)).toEqual(['ipvsadm: -e -t 10.96.0.1:80 -r 10.244.1.1:8080 -m -w 2\n']);
  expect(plan.draining).toEqual([]);
});

test('the time of a drain counts from its begin, also behind further changes', async () => {
  const both = server(vip, { '10.244.1.1:8080': 1, '10.244.1.2:8080': 1 });
  const one = state([server(vip, { '10.244.1.2:8080': 1 })]);
  const { kernel, plan } = await through([state([both]), one]);
  const later = planIpvs(await kernel.observe(), one, ownedBy(one), plan.draining, { ...options, now: 50_000 });
  expect(later.draining[0]?.until).toBe(61_000);
});

test.each([
  ['of UDP', '10.96.0.1:53/UDP', {}],
  ['of SCTP', '10.96.0.3:2905/SCTP', {}],
  ['of scheduler dh, which would go on choosing it', vip, { scheduler: 'dh' }],
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

test('a new virtual server stands with its real ones before its address is bound, and the address goes before it does', async () => {
  const wanted = state([server(vip, { '10.244.1.1:8080': 1 })], [set('KUBE-CLUSTER-IP', '10.96.0.1,tcp:80')]);
  const { plan: there } = await through([wanted]);
  expect(ipvsSteps(there).map(({ kind }) => kind)).toEqual(['ipset', 'ipvsadm', 'ip']);
  const { plan: back } = await through([wanted, nothing]);
  expect(texts(back)).toEqual([
    'ip: link del kube-ipvs0\n',
    'ipvsadm: -D -t 10.96.0.1:80\n',
    'ipset: destroy KUBE-CLUSTER-IP\n',
  ]);
});

test('an address of another interface is not bound', async () => {
  const { plan } = await through([state([server('192.0.2.11:30080/TCP')])]);
  expect(plan.bind).toEqual([]);
});

test('the interface stays while it carries an address of somebody else', async () => {
  const { kernel } = await through([state([server(vip)]), state([server(vip), server('10.96.0.9:80/TCP')])]);
  const plan = planIpvs(await kernel.observe(), nothing, ownedBy(state([server(vip)])), [], options);
  expect(texts(plan)).toEqual(['ip: addr del 10.96.0.1/32 dev kube-ipvs0\n', 'ipvsadm: -D -t 10.96.0.1:80\n']);
});

test('excluded virtual servers are neither changed nor removed', async () => {
  const { kernel } = await through([state([server(vip, { '10.244.1.1:8080': 1 })])]);
  const seen = await kernel.observe();
  const excluded = { ...options, excludeCIDRs: ['10.96.0.0/16'] };
  const owned = ownedBy(state([server(vip)]));
  expect(planIpvs(seen, state([server(vip)]), owned, [], excluded).weights).toEqual([]);
  expect(planIpvs(seen, nothing, owned, [], excluded).remove.map(({ kind }) => kind)).toEqual(['ip']);
});

test('a set that lacks many entries, or room, is filled beside and swapped', async () => {
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

test('a set that was being filled when the process died is destroyed', async () => {
  const { kernel } = await through([state([], [set('KUBE-CLUSTER-IP')])]);
  await kernel.apply({
    kind: 'ipset',
    text: 'create SLUICE-NEXT-3 hash:ip family inet hashsize 1024 maxelem 65536\n',
    because: '',
  });
  const plan = planIpvs(await kernel.observe(), state([], [set('KUBE-CLUSTER-IP')]), ownedBy(nothing), [], options);
  expect(texts(plan)).toEqual(['ipset: destroy SLUICE-NEXT-3\n']);
});

test('source ranges come before the firewall that needs them, and go after it', async () => {
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
  ['changes nothing where 0 keeps what there is', { tcp: 0, tcpFin: 0, udp: 0 }, []],
  ['changes nothing that is so already', { tcp: 900, tcpFin: 0, udp: 300 }, []],
  ['sets what differs', { tcp: 600, tcpFin: 0, udp: 300 }, ['ipvsadm: --set 600 0 300\n']],
])('a state with time-outs %s', async (_title, timeouts, expected) => {
  const { kernel } = await through([]);
  expect(texts(planIpvs(await kernel.observe(), { ...nothing, timeouts }, ownedBy(nothing), [], options))).toEqual(
    expected,
  );
});

test('what somebody else has already is refused, by name', async () => {
  const wanted = state([server(vip), server('10.96.0.2:80/TCP')], [set('KUBE-CLUSTER-IP')]);
  const { kernel } = await through([wanted]);
  const seen = await kernel.observe();
  expect(ipvsConflicts(seen, wanted, ownedBy(wanted))).toEqual([]);
  const problems = ipvsConflicts(seen, wanted, ownedBy(state([server(vip)])));
  expect(problems.map(({ code }) => code)).toEqual(['NODE_SERVERS_NOT_OURS', 'NODE_SERVERS_NOT_OURS']);
  expect(problems[0]?.message).toContain('10.96.0.2:80/TCP');
  const strange = { ...seen, servers: new Map(), strange: new Set([virtualKey(server(vip))]) };
  expect(ipvsConflicts(strange, wanted, ownedBy(wanted))[0]?.message).toContain(vip);
});
