import { nodeFile, quarantineFile, serviceFile } from '@sluice/bundle';
import { describe, expect, test } from 'vitest';
import { readConfig } from '../../load/config/config.ts';
import { type Changes, endpoint, endpoints, node, service, slice } from '../builders.fixture.ts';
import type { JsonObject, KubeObject } from '../model/kube.ts';
import { Memo } from '../model/memo.ts';
import { render, type RenderInput } from '../render.ts';
import { renderWithQuarantine, type RenderedWithQuarantine } from './with-quarantine.ts';

const configOf = (mode: string) =>
  readConfig({
    sluice: {
      file: 'c',
      text: `apiVersion: sluice.dev/v1alpha1\nkind: SluiceConfig\nprofiles: [{ name: default, mode: ${mode} }]\n`,
    },
    kubeProxy: [],
  }).config;

const inputOf = (change: readonly KubeObject[], mode = 'iptables'): RenderInput => ({
  base: [],
  change,
  config: configOf(mode),
  allocations: [],
  allocate: false,
  snapshot: true,
  strict: false,
});

/** A Service at 10.96.0.<host> with one endpoint, created in this year. */
function web(name: string, host: number, more: Changes = {}, year = 2026): KubeObject[] {
  const made = service(name, { clusterIP: `10.96.0.${host}`, ...more });
  const metadata = { ...(made.value['metadata'] as JsonObject), creationTimestamp: `${year}-01-01T00:00:00Z` };
  return [{ ...made, value: { ...made.value, metadata } }, slice(name)];
}

const pathOf = (name: string): string => serviceFile('default', 'shop', name, 'iptables');
const bad: Changes = { sessionAffinity: 'Maybe' };
const nodes = [node('node-a')];

function around(objects: readonly KubeObject[], last?: RenderedWithQuarantine): RenderedWithQuarantine {
  return renderWithQuarantine(inputOf([...nodes, ...objects]), (path) => last?.files.get(path));
}
const said = ({ quarantine }: RenderedWithQuarantine): string[] =>
  quarantine.map(({ object, rules, reasons }) => `${object}: ${rules}: ${reasons.map(({ code }) => code).join()}`);

test('renders the same bundle as render if no object is invalid', () => {
  const objects = [...web('a', 1), ...web('b', 2), ...nodes];
  expect(around(objects).files).toEqual(render(inputOf(objects)).files);
});

describe('an invalid Service', () => {
  const good = around([...web('a', 1), ...web('b', 2)]);
  test.each<[string, readonly KubeObject[]]>([
    ['itself', web('a', 1, bad)],
    ['in its endpoints', [web('a', 1)[0] as KubeObject, slice('a', { endpoints: [{ addresses: ['127.0.0.1'] }] })]],
  ])('%s keeps its last good files, and the others are rendered', (_title, objects) => {
    const next = around([...objects, ...web('b', 3)], good);
    expect(next.files.get(pathOf('a'))).toBe(good.files.get(pathOf('a')));
    expect(next.files.get(pathOf('b'))).toContain('10.96.0.3');
    expect(said(next)).toEqual([expect.stringMatching(/^Service shop\/a: last good: /)]);
    expect(next.files.get(quarantineFile)).toContain('rules: last good');
    expect(next.problems.filter(({ level }) => level === 'error')).toEqual([]);
  });

  test('has no files and is listed if it is new', () => {
    const next = around([...web('c', 3, bad), ...web('b', 2)]);
    expect(said(next)).toEqual(['Service shop/c: none: FIELD_VALUE']);
    expect(next.files.has(pathOf('c'))).toBe(false);
    expect(next.files.has(pathOf('b'))).toBe(true);
  });

  test('leaves quarantine when it is valid again, and quarantine.yaml is removed', () => {
    const ill = around([...web('a', 1, bad), ...web('b', 2)], good);
    const well = around([...web('a', 1), ...web('b', 2)], ill);
    expect(well.files).toEqual(good.files);
  });

  test('has no files after it is deleted', () => {
    const ill = around([...web('a', 1, bad), ...web('b', 2)], good);
    expect(around(web('b', 2), ill).files.has(pathOf('a'))).toBe(false);
  });

  test.each(['ipvs', 'nftables'])('keeps only files of the mode of its nodes (mode %s)', (mode) => {
    const next = renderWithQuarantine(inputOf([...nodes, ...web('a', 1, bad)], mode), (path) => good.files.get(path));
    const paths = [...next.files.keys()].filter((path) => path.includes('/shop/'));
    expect(paths.every((path) => next.files.get(path) === good.files.get(path))).toBe(true);
  });
});

describe('two Services with one address', () => {
  test.each([
    ['the older', 2020, 2021, 'b'],
    ['the other way round the other', 2021, 2020, 'a'],
    ['the first by name when both are of one age', 2020, 2020, 'b'],
  ])('%s keeps it', (_title, yearOfA, yearOfB, loser) => {
    const next = around([...web('a', 1, {}, yearOfA), ...web('b', 1, {}, yearOfB)]);
    expect(said(next)).toEqual([`Service shop/${loser}: none: VIP_CONFLICT`]);
    expect(next.files.has(pathOf(loser === 'a' ? 'b' : 'a'))).toBe(true);
  });

  test('the loser gets it if the winner is quarantined', () => {
    const both = { externalIPs: ['192.0.2.1'] };
    const next = around([...web('a', 1, {}, 2020), ...web('b', 1, both, 2021), ...web('c', 3, both, 2022)]);
    expect(said(next)).toEqual(['Service shop/b: none: VIP_CONFLICT']);
    expect(next.files.get(pathOf('c'))).toContain('192.0.2.1');
  });

  test('a quarantined Service keeps it against a new one', () => {
    const good = around(web('a', 1));
    const next = around([...web('a', 9, bad), ...web('b', 1, {}, 2030)], good);
    expect(said(next)).toEqual([
      expect.stringMatching(/^Service shop\/a: last good/),
      'Service shop/b: none: VIP_CONFLICT',
    ]);
  });

  test.each(['iptables', 'ipvs', 'nftables'])('the same holds for node ports (mode %s)', (mode) => {
    const port = { type: 'NodePort', ports: [{ name: 'http', port: 80, nodePort: 30_080 }] };
    const first = renderWithQuarantine(inputOf([...nodes, ...web('a', 1, port)], mode), () => undefined);
    const input = inputOf([...nodes, ...web('a', 1, { ...port, ...bad }), ...web('b', 2, port, 2030)], mode);
    const next = renderWithQuarantine(input, (path) => first.files.get(path));
    expect(said(next)[1]).toBe('Service shop/b: none: NODE_PORT_CONFLICT');
  });
});

test('an invalid Node keeps its last file', () => {
  const good = around(web('a', 1));
  const broken = node('node-a', { spec: { podCIDR: 'nonsense' } });
  const next = renderWithQuarantine(inputOf([broken, ...web('a', 1)]), (path) => good.files.get(path));
  expect(said(next)).toEqual([expect.stringMatching(/^Node node-a: last good/)]);
  expect(next.files.get('nodes/node-a/node.yaml')).toBe(good.files.get('nodes/node-a/node.yaml'));
});

test('gives the same result with a memo', () => {
  const memo = new Memo();
  const last = (path: string): string | undefined => first.files.get(path);
  const first = renderWithQuarantine(inputOf([...nodes, ...web('a', 1), ...web('b', 2)]), () => undefined, memo);
  const input = inputOf([...nodes, ...web('a', 1, bad), ...web('b', 2)]);
  expect(renderWithQuarantine(input, last, memo)).toEqual(renderWithQuarantine(input, last));
});

describe('invented node names in endpoints', () => {
  const madeUp = (of: string): readonly KubeObject[] =>
    Array.from({ length: 201 }, (_, index) =>
      slice(
        of,
        { endpoints: Array.from({ length: 100 }, (_each, n) => endpoint('10.0.1.1', { nodeName: `x-${index}-${n}` })) },
        { name: `x-${index}`, labels: { 'kubernetes.io/service-name': of } },
      ),
    );
  const nodeFiles = ({ files }: RenderedWithQuarantine): string[] =>
    [...files.keys()].filter((path) => path.startsWith('nodes/'));

  test.each([
    ['of no Service', []],
    ['of a Service', [service('evil', { clusterIP: '10.96.0.6' })]],
  ])('%s are ignored if the Nodes are known', (_title, more) => {
    const found = around([...web('a', 1), ...more, ...madeUp('evil')]);
    expect(nodeFiles(found)).toEqual([nodeFile('node-a')]);
    expect(said(found)).toEqual([]);
    expect(found.files.has(pathOf('a'))).toBe(true);
  });

  test('quarantine their Service if the Nodes are not known, and the others are rendered', () => {
    const objects = [...web('a', 1), service('evil', { clusterIP: '10.96.0.6' }), ...madeUp('evil')];
    const found = renderWithQuarantine(inputOf(objects), () => undefined);
    expect(said(found)).toEqual(['Service shop/evil: none: INPUT_TOO_LARGE']);
    expect(nodeFiles(found)).toEqual([]);
    expect(found.files.has(pathOf('a'))).toBe(true);
  });
});

/** A Service and one slice, small enough for the API server: each of the endpoints counts at each of the ports. */
function large(name: string, host: number, ports: number, hosts: number): KubeObject[] {
  const names = Array.from({ length: ports }, (_, n) => ({ name: `p${n}`, port: n + 1 }));
  const addresses = Array.from({ length: hosts }, (_, n) => endpoint(`10.244.${n >> 8}.${n & 255}`));
  return [
    service(name, { clusterIP: `10.96.0.${host}`, ports: names }),
    slice(name, { ports: names, endpoints: addresses }),
  ];
}

describe('a Service that is too large', () => {
  test('by its ports is quarantined alone', () => {
    const found = around([...large('huge', 9, 20_001, 0), ...web('a', 1)]);
    expect(said(found)).toEqual(['Service shop/huge: none: INPUT_TOO_LARGE']);
    expect(found.files.has(pathOf('a'))).toBe(true);
  });

  test('by its endpoints at all ports is quarantined alone, before rules are made of it', () => {
    const good = around([...large('huge', 9, 2, 2), ...web('a', 1)]);
    const began = performance.now();
    const found = around([...large('huge', 9, 2_000, 1_000), ...web('a', 2)], good);
    expect(said(found)).toEqual(['Service shop/huge: last good: INPUT_TOO_LARGE']);
    expect(found.files.get(pathOf('huge'))).toBe(good.files.get(pathOf('huge')));
    expect(found.files.get(pathOf('a'))).toContain('10.96.0.2');
    // Two million endpoints took a minute and 3.4 GB.
    expect(performance.now() - began).toBeLessThan(20_000);
  });

  test('also beside Endpoints, whose addresses are compared with those of slices', () => {
    const [huge, some] = large('huge', 9, 2_000, 1_000) as [KubeObject, KubeObject];
    const found = around([huge, some, endpoints('huge', { addresses: [{ ip: '10.244.9.9' }] })]);
    expect(said(found)).toEqual(['Service shop/huge: none: INPUT_TOO_LARGE']);
  });
});
