import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { readConfig } from '../../load/config/config.ts';
import { endpoint, endpoints, node, service, slice } from '../builders.fixture.ts';
import type { KubeObject } from './kube.ts';
import { Memo, namesKept } from './memo.ts';
import { render, type RenderInput } from '../render.ts';

const { config } = readConfig({ kubeProxy: [] });
const configOf = (mode: string) =>
  readConfig({
    sluice: {
      file: 'c',
      text: `apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\nprofiles: [{ name: default, mode: ${mode} }]\n`,
    },
    kubeProxy: [],
  }).config;

const inputOf = (change: readonly KubeObject[], of = config): RenderInput => ({
  base: [],
  change,
  config: of,
  allocations: [],
  allocate: false,
  snapshot: true,
  strict: false,
});

const name = fc.constantFrom('a', 'b', 'c');
const host = fc.integer({ min: 1, max: 4 });
/** One thing that happens to a cluster: an object of this key is now like that, or gone. */
const event = fc.record({
  key: fc.oneof(
    name.map((text) => ({ kind: 'Service', text })),
    name.map((text) => ({ kind: 'EndpointSlice', text })),
    name.map((text) => ({ kind: 'Endpoints', text })),
    name.map((text) => ({ kind: 'Node', text })),
  ),
  host,
  zone: fc.constantFrom('x', 'y'),
  isGone: fc.integer({ min: 0, max: 4 }).map((n) => n === 0),
  policy: fc.constantFrom('Cluster', 'Local'),
});
type Event = typeof event extends fc.Arbitrary<infer T> ? T : never;

function objectOf({ key: { kind, text }, host: last, zone, policy }: Event): KubeObject {
  const nodeName = last > 2 ? 'a' : 'b';
  switch (kind) {
    case 'Service':
      return service(text, { clusterIP: `10.96.0.${last}`, clusterIPs: undefined, internalTrafficPolicy: policy });
    case 'EndpointSlice':
      return slice(text, { endpoints: [{ addresses: [`10.244.0.${last}`], nodeName, zone }] });
    case 'Endpoints':
      return endpoints(text, { addresses: [{ ip: `10.244.1.${last}`, nodeName }] });
    default:
      return node(text, {}, { 'topology.kubernetes.io/zone': zone });
  }
}

test.each([
  ['iptables', config],
  ['ipvs', configOf('ipvs')],
  ['nftables', configOf('nftables')],
])('renders with a memo the same bytes as without, over random changes (mode %s)', (_mode, of) => {
  fc.assert(
    fc.property(fc.array(event, { maxLength: 12 }), (events) => {
      const memo = new Memo();
      const cluster = new Map<string, KubeObject>();
      for (const one of events) {
        const key = `${one.key.kind} ${one.key.text}`;
        if (one.isGone) cluster.delete(key);
        else cluster.set(key, objectOf(one));
        const input = inputOf([...cluster.values()], of);
        expect(render(input, memo)).toEqual(render(input));
      }
    }),
    runs(60),
  );
});

test('an unchanged file is the identical string', () => {
  const memo = new Memo();
  let made = 0;
  const make = (): { n: number } => ({ n: made++ });
  const [owner, input] = [{}, {}];
  const first = memo.of('x', owner, [input], make);
  expect(memo.of('x', owner, [input], make)).toBe(first);
  expect(memo.of('x', owner, [{}], make)).not.toBe(first);
  expect(memo.of('x', owner, [input, input], make)).toEqual({ n: 2 });
  expect(memo.of('y', owner, [input], make)).toEqual({ n: 3 });
  const list = [{ a: 1 }];
  expect(memo.same('z', list)).toBe(list);
  expect(memo.same('z', [{ a: 1 }])).toBe(list);
  expect(memo.same('z', [{ a: 2 }])).toEqual([{ a: 2 }]);
});

test('forgets names of removed Services, and rarely compiles all files again for it', () => {
  const memo = new Memo();
  const clear = vi.spyOn(memo, 'clear');
  const perRender = 200;
  const addressOf = (index: number): string => `10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`;
  for (let round = 0; round < 120; round++) {
    const addresses = Array.from({ length: perRender }, (_, index) => addressOf(round * perRender + index));
    const input = inputOf([service('web'), slice('web', { endpoints: addresses.map((one) => endpoint(one)) })]);
    expect([...render(input, memo).files.values()].join('')).toContain(`${addresses.at(-1)}:8080`);
    expect(memo.names.size).toBeLessThanOrEqual(namesKept);
  }
  expect(clear).toHaveBeenCalledTimes(2);
});

test('keeps the names of a large cluster', () => {
  const memo = new Memo();
  const clear = vi.spyOn(memo, 'clear');
  const first = memo.names;
  for (let index = 0; index < 3 * namesKept; index++) first.endpoint('shop/web:http', 'TCP', `e${index}`);
  memo.tidy();
  for (let index = 0; index < 2 * namesKept; index++) first.endpoint('shop/web:http', 'TCP', `f${index}`);
  memo.tidy();
  expect(clear).not.toHaveBeenCalled();
});
