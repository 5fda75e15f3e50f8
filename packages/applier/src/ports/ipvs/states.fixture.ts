import {
  type IpSet,
  type IpvsState,
  printEndpoint,
  type RealServer,
  type VirtualServer,
  virtualKey,
} from '@sluice/netfilter';
import fc from 'fast-check';

/** A virtual server with real servers given as `10.244.1.5:8080 weight`. */
export function server(
  name: string,
  real: Readonly<Record<string, number>> = {},
  rest: Partial<VirtualServer> = {},
): VirtualServer {
  const [endpoint = '', protocol = 'TCP'] = name.split('/');
  const colon = endpoint.lastIndexOf(':');
  const parse = (text: string): RealServer => {
    const at = text.lastIndexOf(':');
    return { address: text.slice(0, at), port: Number(text.slice(at + 1)), weight: real[text] ?? 1 };
  };
  return {
    family: 'ipv4',
    protocol: protocol.toLowerCase() as VirtualServer['protocol'],
    address: endpoint.slice(0, colon),
    port: Number(endpoint.slice(colon + 1)),
    scheduler: 'rr',
    flags: [],
    real: new Map(Object.keys(real).map((text) => [text, parse(text)])),
    ...rest,
  };
}

/** A set of `hash:ip,port` or `hash:ip`. */
export function set(name: string, ...entries: readonly string[]): IpSet {
  const type = name === 'KUBE-IPVS-IPS' ? 'hash:ip' : 'hash:ip,port';
  return { name, type, family: 'ipv4', maxElements: 65_536, entries: new Set(entries) };
}

/** A state of these servers and sets. @param addresses bound ones; left out: those of all servers */
export function state(
  servers: readonly VirtualServer[],
  sets: readonly IpSet[] = [],
  addresses?: readonly string[],
): IpvsState {
  const bound = [...new Set(addresses ?? servers.map(({ address }) => address))].toSorted();
  return {
    virtualServers: new Map(servers.map((one) => [virtualKey(one), one])),
    sets: new Map(sets.map((one) => [one.name, one])),
    addresses: { ipv4: bound, ipv6: [] },
  };
}

const names = ['10.96.0.1:80/TCP', '10.96.0.1:53/UDP', '10.96.0.2:80/TCP', '10.96.0.3:2905/SCTP'] as const;
const endpoints = [1, 2, 3, 4].map((host) => printEndpoint(`10.244.1.${host}`, 8080));
const entries = ['10.96.0.1,tcp:80', '10.96.0.1,udp:53', '10.96.0.2,tcp:80'];

const servers = fc
  .uniqueArray(
    fc.record({
      name: fc.constantFrom(...names),
      real: fc.dictionary(fc.constantFrom(...endpoints), fc.integer({ min: 0, max: 3 })),
      scheduler: fc.constantFrom('rr', 'wrr', 'sh'),
      persistence: fc.constantFrom(undefined, 600),
    }),
    { selector: ({ name }) => name },
  )
  .map((list) =>
    list.map(({ name, real, scheduler, persistence }) =>
      server(name, real, { scheduler, ...(persistence === undefined ? {} : { persistence }) }),
    ),
  );
const sets = fc
  .subarray(['KUBE-CLUSTER-IP', 'KUBE-LOAD-BALANCER-FW', 'KUBE-EXTERNAL-IP'])
  .chain((chosen) => fc.tuple(...chosen.map((name) => fc.subarray(entries).map((some) => set(name, ...some)))));

/** Any state of a node with a few servers and sets. */
export const states: fc.Arbitrary<IpvsState> = fc.tuple(servers, sets).map(([some, list]) => state(some, list));
