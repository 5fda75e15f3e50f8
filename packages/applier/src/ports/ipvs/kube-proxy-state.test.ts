import { expect, test } from 'vitest';
import { server, set } from './states.fixture.ts';
import { kubeProxyState } from './kube-proxy-state.ts';
import type { ObservedIpvs } from './values.ts';

const servers = [
  server('10.96.0.10:80/TCP', { '10.244.1.5:8080': 1 }),
  server('192.0.2.11:30080/TCP', { '10.244.1.5:8080': 1 }),
  server('192.0.2.11:443/TCP'),
  server('192.0.2.11:8443/TCP'),
  server('198.51.100.7:80/TCP'),
];
const observed: ObservedIpvs = {
  servers: new Map(servers.map((one) => [`${one.address}:${one.port}/TCP`, one])),
  foreign: new Set(['203.0.113.9:80/TCP']),
  sets: new Map(
    [
      set('KUBE-NODE-PORT-TCP', '30080'),
      set('KUBE-EXTERNAL-IP', '192.0.2.11,tcp:443'),
      set('SLUICE-NEXT-1', '10.96.0.10,tcp:80'),
    ].map((one) => [one.name, one]),
  ),
  bound: { ipv4: new Set(['10.96.0.10']), ipv6: new Set() },
  elsewhere: { ipv4: new Set(['192.0.2.11', '198.51.100.7']), ipv6: new Set() },
  timeouts: undefined,
};
const namesOf = (excludeCIDRs: readonly string[]): readonly string[] | undefined => {
  const state = kubeProxyState(observed, excludeCIDRs);
  return state && [...state.virtualServers.keys()];
};

test("takes the servers of kube-proxy's interface, node ports and sets, and leaves keepalived's", () => {
  expect(namesOf([])).toEqual(['10.96.0.10:80/TCP', '192.0.2.11:30080/TCP', '192.0.2.11:443/TCP']);
});

test('leaves out servers in an excluded network', () => {
  expect(namesOf(['192.0.2.0/24'])).toEqual(['10.96.0.10:80/TCP']);
});

test('takes its sets, but no set that was being filled', () => {
  expect([...(kubeProxyState(observed, [])?.sets.keys() ?? [])]).toEqual(['KUBE-NODE-PORT-TCP', 'KUBE-EXTERNAL-IP']);
});

test('finds nothing without its interface', () => {
  expect(kubeProxyState({ ...observed, bound: undefined }, [])).toBeUndefined();
});
