import { describe, expect, test } from 'vitest';
import type { ForwardingState } from './services.ts';
import { planeOf } from './planes.ts';
import { removalBetween, removalOf } from './removal.ts';
import { virtualKey, type VirtualServer } from '../virtual/values.ts';

const bound = { share: 0.5, least: 10 };
/** So many Services with so many endpoints each. @param from the number of the first one */
const services = (count: number, endpoints = 1, from = 0): readonly (readonly [string, number])[] =>
  Array.from({ length: count }, (_, index) => [`shop/s${from + index}`, endpoints] as const);
const judge = (before: readonly (readonly [string, number])[], after: readonly (readonly [string, number])[]) =>
  removalOf(new Map(before), new Map(after), bound);

describe('a change is a removal', () => {
  test('if it takes away more than the share, and at least so many', () => {
    expect(judge(services(30), [])).toEqual({ services: { lost: 30, of: 30 }, endpoints: { lost: 30, of: 30 } });
    expect(judge(services(30), services(15)), 'half of them').toBeUndefined();
    expect(judge(services(30), services(14))).toMatchObject({ services: { lost: 16, of: 30 } });
    expect(judge(services(9), []), 'few').toBeUndefined();
    expect(judge(services(10), [])).toBeDefined();
  });

  test('of Services that are replaced by as many others', () => {
    expect(judge(services(20), services(20, 1, 100))).toMatchObject({ services: { lost: 20, of: 20 } });
  });

  test('of Services that stay without endpoints, not of those that had none', () => {
    expect(judge(services(20, 2), services(20, 0))).toMatchObject({ endpoints: { lost: 40, of: 40 } });
    expect(judge([...services(20, 0), ...services(15, 1, 50)], services(15, 1, 50))).toBeUndefined();
  });

  test('of few Services with most endpoints, not of one alone', () => {
    const small = services(40, 1, 100);
    expect(judge([...services(2, 50), ...small], small)).toMatchObject({
      services: { lost: 2, of: 42 },
      endpoints: { lost: 100, of: 140 },
    });
    expect(judge([...services(1, 500), ...small], small)).toBeUndefined();
  });

  test('not if each Service keeps an endpoint', () => {
    expect(judge(services(20, 100), services(20, 1))).toBeUndefined();
  });

  test('never with a share of 1', () => {
    expect(removalOf(new Map(services(30)), new Map(), { share: 1, least: 1 })).toBeUndefined();
  });
});

/** Each Service has two ports, and a frontend on each. */
function state(ports: readonly number[], count: number, family: 'ipv4' | 'ipv6' = 'ipv4'): ForwardingState {
  const servers = Array.from({ length: count }).flatMap((_, index) =>
    ports.map((port): VirtualServer => {
      const [address, pod] =
        family === 'ipv4' ? [`10.96.0.${index}`, `10.244.0.${index}`] : [`fd00:96::${index}`, `fd00:10::${index}`];
      const real = { address: pod, port: 8080 + port, method: 'masq' as const, weight: 1 };
      const to = family === 'ipv4' ? `${pod}:${real.port}` : `[${pod}]:${real.port}`;
      return {
        family,
        protocol: 'tcp',
        address,
        port,
        scheduler: 'rr',
        flags: [],
        real: new Map([[to, real]]),
      } as never;
    }),
  );
  const virtualServers = new Map(servers.map((one) => [virtualKey(one), one]));
  return { families: {}, ipvs: { virtualServers, sets: new Map(), addresses: { ipv4: [], ipv6: [] } } };
}

describe.each(['ipv4', 'ipv6'] as const)('of the rules of a node, in family %s,', (family) => {
  const of = (ports: readonly number[], count: number): ForwardingState => state(ports, count, family);

  test('an address counts once, and its endpoints once', () => {
    expect(removalBetween(of([80, 443], 20), of([80, 443], 4), bound)).toEqual({
      services: { lost: 16, of: 20 },
      endpoints: { lost: 16, of: 20 },
    });
    expect(removalBetween(of([80, 443], 9), of([], 0), bound)).toBeUndefined();
  });

  test('an address that keeps a port is no loss', () => {
    expect(removalBetween(of([80, 443], 20), of([443], 20), bound)).toBeUndefined();
  });
});

test('reads no chain of layout flat that was compared before', () => {
  const reads = { count: 0 };
  const stateWith = (count: number): ForwardingState => {
    const chains = new Map<string, readonly string[]>(
      Array.from({ length: count }, (_, n) => [
        `KUBE-SVC-${n}`,
        [`-A KUBE-SVC-${n} -p tcp -j DNAT --to-destination 10.244.0.${n}:80`],
      ]),
    );
    const get = chains.get.bind(chains);
    chains.get = (name) => {
      reads.count += 1;
      return get(name);
    };
    const table = { chains, jumps: [] };
    return { families: { ipv4: { nat: table, filter: { chains: new Map(), jumps: [] } } } };
  };
  const [from, to] = [stateWith(200), stateWith(199)];
  expect(planeOf(from).compare(from, to).removed).toHaveLength(1);
  expect(reads.count).toBeGreaterThan(199);
  reads.count = 0;
  expect(removalBetween(from, to, bound)).toBeUndefined();
  expect(reads.count).toBeLessThan(20);
  expect(planeOf(from).compare(from, stateWith(198)).removed, 'another one').toHaveLength(2);
});
