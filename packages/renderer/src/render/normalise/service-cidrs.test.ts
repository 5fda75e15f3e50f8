import { expect, test } from 'vitest';
import { config, lines, normalised, object, service } from '../builders.fixture.ts';
import type { JsonObject, KubeObject } from '../model/kube.ts';
import { Memo } from '../model/memo.ts';
import { normalise } from '../normalise.ts';
import { render } from '../render.ts';
import { renderWithQuarantine } from '../quarantine/with-quarantine.ts';

const range = (name: string, cidrs: readonly string[], more: JsonObject = {}): KubeObject =>
  object('ServiceCIDR', { name }, { spec: { cidrs }, ...more });
const ofApi = (...cidrs: readonly string[]): KubeObject => range('kubernetes', cidrs);
const more = range('more', ['10.200.0.0/29']);
const notReady = { status: { conditions: [{ type: 'Ready', status: 'False' }] } };
const written = { ...config().named, serviceCIDRs: true };
const four = { serviceCIDRs: { ipv4: ['10.96.0.0/16'] } };

test.each<[string, readonly KubeObject[], boolean, object, string]>([
  ['nothing', [], false, { ipv4: ['10.96.0.0/16'] }, 'ipv4'],
  ['kubernetes instead of the default', [ofApi('10.64.0.0/16')], false, { ipv4: ['10.64.0.0/16'] }, 'ipv4'],
  [
    'the first family of kubernetes is the primary one',
    [ofApi('fd00:64::/112', '10.64.0.0/16')],
    false,
    { ipv6: ['fd00:64::/112'], ipv4: ['10.64.0.0/16'] },
    'ipv6',
  ],
  [
    'others beside kubernetes',
    [more, ofApi('10.64.0.0/16')],
    false,
    { ipv4: ['10.64.0.0/16', '10.200.0.0/29'] },
    'ipv4',
  ],
  ['others beside the default', [more], false, { ipv4: ['10.96.0.0/16', '10.200.0.0/29'] }, 'ipv4'],
  ['sluice.yaml wins', [ofApi('10.64.0.0/16'), more], true, { ipv4: ['10.96.0.0/16', '10.200.0.0/29'] }, 'ipv4'],
  [
    'one that is not ready counts, as for kube-proxy',
    [ofApi('10.64.0.0/16'), range('old', ['10.65.0.0/16'], notReady)],
    false,
    { ipv4: ['10.64.0.0/16', '10.65.0.0/16'] },
    'ipv4',
  ],
])('service CIDRs: %s', (_title, change, isWritten, serviceCIDRs, primaryFamily) => {
  const options = { config: config({ ...four, ...(isWritten && { named: written }) }) };
  expect(normalised(change, options).config).toMatchObject({ serviceCIDRs, primaryFamily });
});

test.each<[string, readonly string[], readonly string[]]>([
  ['says the same', ['10.96.0.0/16'], []],
  ['has another range', ['10.97.0.0/16'], ['warning SERVICE_CIDRS_DIFFER ServiceCIDR kubernetes#spec.cidrs']],
  [
    'has one family more',
    ['10.96.0.0/16', 'fd00::/112'],
    ['warning SERVICE_CIDRS_DIFFER ServiceCIDR kubernetes#spec.cidrs'],
  ],
])('sluice.yaml against a cluster that %s', (_title, cidrs, expected) => {
  const found = normalised([ofApi(...cidrs), more], { config: config({ ...four, named: written }) });
  expect(lines(found.problems)).toEqual(expected);
  expect(normalised([ofApi(...cidrs), more], { config: config(four) }).problems).toEqual([]);
});

test.each<[string, readonly KubeObject[], number]>([
  ['inside of one of several', [ofApi('10.64.0.0/16'), range('a', ['10.96.0.0/28'])], 0],
  ['outside of all', [ofApi('10.64.0.0/16'), more], 1],
  ['outside, where nothing says what the API server has', [more], 0],
])('a ClusterIP %s', (_title, change, count) => {
  const { problems } = normalised([service('web', { selector: undefined }), ...change]);
  expect(problems.filter(({ code }) => code === 'RANGE_OUTSIDE')).toHaveLength(count);
});

const wanting = (count: number): readonly KubeObject[] =>
  Array.from({ length: count }, (_, index) => service(`s${index}`, { clusterIP: undefined, selector: undefined }));
const given = (change: readonly KubeObject[]) => {
  const { created, problems } = normalised(change, { allocate: true });
  return { addresses: created.flatMap(({ clusterIPs }) => clusterIPs), codes: problems.map(({ code }) => code) };
};

test('allocates from the first range with a free address', () => {
  const { addresses, codes } = given([...wanting(7), ofApi('10.64.0.0/29'), more]);
  expect(addresses.filter((address) => address.startsWith('10.64.0.'))).toHaveLength(5);
  expect(addresses.filter((address) => address.startsWith('10.200.0.'))).toHaveLength(2);
  expect(codes).not.toContain('ALLOCATION_EXHAUSTED');
});

test('does not allocate from a range that is not ready, and names the others when they are exhausted', () => {
  const all = [...wanting(6), ofApi('10.64.0.0/29'), range('old', ['10.200.0.0/29'], notReady)];
  expect(given(all).codes).toContain('ALLOCATION_EXHAUSTED');
  expect(given(all.slice(1)).addresses.every((address) => address.startsWith('10.64.0.'))).toBe(true);
});

const input = (change: readonly KubeObject[], base: readonly KubeObject[] = []) => ({
  base,
  change,
  config: config(four),
  allocations: [],
  allocate: false,
  snapshot: false,
  strict: false,
});

test('cluster.yaml has all ranges, and a change replaces one of the base', () => {
  const text = (change: readonly KubeObject[], base: readonly KubeObject[]) =>
    render(input(change, base)).files.get('cluster.yaml');
  const base = [service('web'), ofApi('10.96.0.0/16'), range('more', ['10.200.0.0/24'])];
  expect(text([], base)).toContain('serviceCIDRs:\n  - 10.200.0.0/24\n  - 10.96.0.0/16\n');
  expect(text([range('more', ['10.201.0.0/24'])], base)).toContain(
    'serviceCIDRs:\n  - 10.201.0.0/24\n  - 10.96.0.0/16\n',
  );
});

test('with a memo the config is the same object while the ranges do not change', () => {
  const memo = new Memo();
  const one = normalise(input([service('web'), ofApi('10.64.0.0/16')]), memo);
  expect(normalise(input([service('web'), ofApi('10.64.0.0/16')]), memo).config).toBe(one.config);
  expect(normalise(input([service('web'), ofApi('10.65.0.0/16')]), memo).config).not.toBe(one.config);
});

test('renders without an invalid ServiceCIDR, with a warning', () => {
  const { files, problems, quarantine } = renderWithQuarantine(
    input([service('web'), ofApi('10.96.0.0/16'), range('bad', ['x'])]),
    () => undefined,
  );
  expect(files.get('cluster.yaml')).toContain('serviceCIDRs:\n  - 10.96.0.0/16\n');
  expect([...files.keys()].some((path) => path.includes('shop/web'))).toBe(true);
  expect(lines(problems)).toContain('warning ADDRESS_INVALID ServiceCIDR bad#spec.cidrs.0');
  expect(quarantine).toEqual([]);
});
