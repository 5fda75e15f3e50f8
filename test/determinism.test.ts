import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { programPath, runs } from '@sluice/testing';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { readConfig } from '../packages/renderer/src/load/config/config.ts';
import { load } from '../packages/renderer/src/load/load.ts';
import { listTree } from '../packages/renderer/src/load/tree.ts';
import { render } from '../packages/renderer/src/render/render.ts';
import { clusterList, daemonSet } from './bench/data.ts';

const root = join(import.meta.dirname, '..');
const scratch = mkdtempSync(join(tmpdir(), 'sluice-same-'));
afterAll(() => rmSync(scratch, { recursive: true }));

function bytesOf(dir: string): Record<string, string> {
  return Object.fromEntries(
    ['.sluice-complete', ...listTree(dir)].map((path) => [path, readFileSync(join(dir, path), 'utf8')]),
  );
}

const examples = readdirSync(join(root, 'examples')).filter((name) => existsSync(join(root, 'examples', name, 'in')));

test.each(examples)(
  'renders %s to the same bytes in another directory, locale, time zone and order of files',
  (name) => {
    const copy = join(scratch, `copy of ${name}`);
    cpSync(join(root, 'examples', name), copy, { recursive: true });
    const run = (
      example: string,
      out: string,
      env: Record<string, string>,
      reverse: boolean,
    ): Record<string, string> => {
      const files = readdirSync(join(example, 'in')).toSorted();
      const inputs = (reverse ? files.toReversed() : files).flatMap((file) => ['-f', join(example, 'in', file)]);
      const config = existsSync(join(example, 'sluice.yaml')) ? ['-c', join(example, 'sluice.yaml')] : [];
      const options = { cwd: scratch, env: { PATH: process.env['PATH'] ?? '', ...env }, stdio: 'pipe' } as const;
      execFileSync(programPath('sluice'), ['render', ...inputs, ...config, '-o', join(scratch, out)], options);
      return bytesOf(join(scratch, out));
    };
    const here = run(join(root, 'examples', name), `${name}-here`, { TZ: 'UTC', LC_ALL: 'C' }, false);
    const there = run(
      copy,
      `${name}-there`,
      { TZ: 'Asia/Kathmandu', LC_ALL: 'tr_TR.UTF-8', LANG: 'tr_TR.UTF-8' },
      true,
    );
    expect(there).toEqual(here);
  },
);

const list = clusterList({ services: 12, endpointsPerService: 3, nodes: 5 });
list.items.push(...daemonSet(5));

function renderItems(items: readonly object[]): ReadonlyMap<string, string> {
  const loaded = load([{ file: 'list.json', text: JSON.stringify({ ...list, items }) }]);
  const { config } = readConfig({ kubeProxy: [] });
  const input = {
    base: [],
    change: loaded.objects,
    config,
    allocations: [],
    allocate: true,
    snapshot: true,
    strict: false,
  };
  const rendered = render(input);
  expect(rendered.problems.filter(({ level }) => level === 'error')).toEqual([]);
  return rendered.files;
}

test('shuffled input changes no byte', () => {
  const sorted = [...renderItems(list.items)];
  const shuffled = fc.shuffledSubarray(list.items, { minLength: list.items.length, maxLength: list.items.length });
  fc.assert(
    fc.property(shuffled, (items) => {
      expect([...renderItems(items)]).toEqual(sorted);
    }),
    runs(30),
  );
});

function changedFiles(before: readonly object[], after: readonly object[]): readonly string[] {
  const [old, now] = [renderItems(before), renderItems(after)];
  return [...new Set([...old.keys(), ...now.keys()])].filter((path) => old.get(path) !== now.get(path));
}

interface SliceItem {
  readonly kind: string;
  readonly metadata: { readonly namespace: string };
  readonly endpoints: readonly { readonly addresses: readonly string[] }[];
}

/** The items with the address of the second endpoint of one slice replaced. */
function withRestartedPod(of: (slice: SliceItem) => boolean): readonly object[] {
  return list.items.map((item) => {
    const slice = item as unknown as SliceItem;
    if (slice.kind !== 'EndpointSlice' || !of(slice)) return item;
    const endpoints = slice.endpoints.map((endpoint, n) =>
      n === 1 ? { ...endpoint, addresses: ['10.200.9.9'] } : endpoint,
    );
    return { ...item, endpoints };
  });
}

test('a restarted pod of a DaemonSet with Local policy changes one file', () => {
  const after = withRestartedPod((slice) => slice.metadata.namespace === 'kube-system');
  expect(changedFiles(list.items, after)).toEqual(['profiles/default/services/kube-system/dns.iptables']);
});

test('… and about ten lines of it', () => {
  const after = withRestartedPod((slice) => slice.metadata.namespace === 'kube-system');
  const path = 'profiles/default/services/kube-system/dns.iptables';
  const lines = new Set(renderItems(list.items).get(path)?.split('\n'));
  const changed =
    renderItems(after)
      .get(path)
      ?.split('\n')
      .filter((line) => !lines.has(line)) ?? [];
  expect(changed.length).toBeLessThanOrEqual(10);
});

test('two changes of different Services touch different files', () => {
  const services = list.items.filter((item) => item['kind'] === 'Service').slice(0, 2);
  const touched = services.map((service) => {
    const { name } = service['metadata'] as { name: string };
    const without = list.items.filter((item) => !JSON.stringify(item['metadata']).includes(`"name":"${name}"`));
    return changedFiles(list.items, without);
  });
  expect(touched[0]?.filter((path) => touched[1]?.includes(path))).toEqual([]);
  expect(touched.every((paths) => paths.length === 1)).toBe(true);
});
