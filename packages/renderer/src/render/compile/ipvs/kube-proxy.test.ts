import { type IpvsHost, ipvsHost, type IpvsState, readIpvs, virtualKey } from '@sluice/netfilter';
import { resolveNode, type ResolvedNode } from '@sluice/bundle';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { assemble } from '../../assemble.ts';
import type { Node, Service } from '../../model/model.ts';
import { someNodes, somePort, someProfile } from '../arbitrary.fixture.ts';
import { configWith, serviceOf } from '../sample.fixture.ts';
import { type IpvsNode, kubeProxyIpvs } from './kube-proxy.fixture.ts';

/** What the machines have; the first external address of each family is one of theirs. */
const machine = {
  ipv4: ['127.0.0.1', '192.0.2.7', '192.0.2.1', '198.18.0.7'],
  ipv6: ['::1', 'fe80::7', '2001:db8::7', '2001:db8::1'],
};

/** What a bundle says about a node, in the words of the model. */
function answersOf(resolved: ResolvedNode, host: IpvsHost): IpvsNode {
  const state = readIpvs(resolved.ipvs!, resolved.profile.families, host);
  if ('problems' in state) throw new Error(JSON.stringify(state.problems));
  const sets = [...state.sets].filter(([, { entries }]) => entries.size > 0);
  return {
    servers: serversOf(state),
    sets: Object.fromEntries(sets.map(([name, { entries }]) => [name, [...entries].toSorted()])),
    outFilter: Object.fromEntries(
      resolved.profile.families.flatMap((family) => {
        const rules = resolved.rules[family]!.filter.rules.filter((rule) => rule.includes('KUBE-IPVS-OUT-FILTER'));
        return rules.length === 0 ? [] : [[family, rules]];
      }),
    ),
  };
}

function serversOf({ virtualServers }: IpvsState): Record<string, string[]> {
  const named = [...virtualServers.values()].map((server) => {
    const attributes = [server.scheduler, server.persistence, ...server.flags].filter((word) => word !== undefined);
    const real = [...server.real].map(([text, { weight }]) => `${text} w${weight}`);
    return [`${virtualKey(server)} ${attributes.join(' ')}`, real.toSorted()] as const;
  });
  return Object.fromEntries(named);
}

const someService: fc.Arbitrary<Service> = fc
  .record({
    port: somePort,
    other: fc.option(somePort, { nil: undefined }),
    scheduler: fc.constantFrom(undefined, 'mh' as const, 'wlc' as const),
    weights: fc.constantFrom(undefined, [
      { label: 'topology.kubernetes.io/zone', value: 'a', weight: 3 },
      { label: 'example.com/big', value: 'true', weight: 65_535 },
    ]),
  })
  .map(({ port, other, scheduler, weights }) => ({
    ...serviceOf(
      other ? [port, { ...other, key: 'shop/cart:more', name: 'more', port: 81, nodePort: 30_081 }] : [port],
    ),
    ...(scheduler && { scheduler }),
    ...(weights && { weights }),
  }));

const someFleet: fc.Arbitrary<Node[]> = fc
  .tuple(someNodes, fc.array(fc.constantFrom('true', 'false'), { minLength: 3, maxLength: 3 }))
  .map(([nodes, big]) =>
    nodes.map((node, index) => {
      const zone: [string, string][] = node.zone === undefined ? [] : [['topology.kubernetes.io/zone', node.zone]];
      return { ...node, labels: new Map([...zone, ['example.com/big', big[index]!]]) };
    }),
  );

const someIpvsProfile = fc
  .record({
    profile: someProfile,
    scheduler: fc.constantFrom('rr' as const, 'sh' as const, 'mh' as const),
    nodePortAddresses: fc.constantFrom<string[]>(
      [],
      ['primary'],
      ['198.18.0.0/16'],
      ['198.18.0.0/16', '2001:db8::7/128'],
      ['localhost'],
      ['all', 'primary'],
      ['primary', 'localhost'],
      ['primary', '198.18.0.0/16'],
      ['primary', '2001:db8::/64'],
      ['primary', '0.0.0.0/0'],
    ),
  })
  .map(({ profile, scheduler, nodePortAddresses }) => ({
    ...profile,
    nodePortAddresses,
    mode: 'ipvs' as const,
    ipvs: { scheduler, excludeCIDRs: [], strictARP: false, timeouts: { tcp: 0, tcpFin: 0, udp: 0 } },
  }));

/** Seconds on a machine of its own; others may be at work beside it. */
const busyMachineMs = 30_000;

test(
  'a node has the state that kube-proxy would have there in mode ipvs',
  () => {
    fc.assert(
      fc.property(someService, someIpvsProfile, someFleet, (service, profile, nodes) => {
        const { files } = assemble({ nodes, services: [service] }, configWith({ profiles: [profile] }), true);
        for (const node of nodes) {
          const resolved = resolveNode(files, node.name);
          if (!('version' in resolved)) throw new Error(JSON.stringify(resolved));
          const host = ipvsHost(resolved.profile, machine);
          const own = { ipv4: host.ipv4.own, ipv6: host.ipv6.own };
          expect(answersOf(resolved, host)).toEqual(
            kubeProxyIpvs(service, node, profile, ipvsHost({ nodePortAddresses: [] }, own), nodes),
          );
        }
      }),
      runs(250),
    );
  },
  busyMachineMs,
);
