import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { BundleFiles } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { type BundleDiff, diffBundles, isSame } from './diff.ts';
import { outcomeText, sourceText, verdictText } from './words.ts';

const examples = join(import.meta.dirname, '../../../../examples');

function bundleOf(example: string): BundleFiles {
  const dir = join(examples, example, 'out');
  const paths = readdirSync(dir, { recursive: true, encoding: 'utf8' }).filter((path) =>
    statSync(join(dir, path)).isFile(),
  );
  const kept = paths.filter((path) => !path.includes('.sluice-'));
  return new Map(kept.map((path) => [path, readFileSync(join(dir, path), 'utf8')]));
}

function edited(files: BundleFiles, path: string, edit: (text: string) => string): BundleFiles {
  const text = files.get(path) ?? '';
  const after = edit(text);
  if (after === text) throw new Error(`The edit leaves ${path} as it is`);
  return new Map([...files, [path, after]]);
}

function diffOf(old: BundleFiles, fresh: BundleFiles): BundleDiff {
  const diff = diffBundles(old, fresh);
  if (!('flows' in diff)) throw new Error(diff[0]?.message);
  return diff;
}

const balancer = bundleOf('03-load-balancer');
const web = 'profiles/default/services/shop/web.iptables';
const api = 'profiles/default/services/shop/api.iptables';

test('a bundle is the same as itself', () => {
  const diff = diffOf(balancer, balancer);
  expect(isSame(diff)).toBe(true);
  expect(verdictText(diff)).toBe('Nothing changes');
});

test('rules of different Services in another order make no difference', () => {
  const swapped = edited(balancer, web, (text) => {
    const lines = text.split('\n');
    const at = lines.findIndex((line) => line.includes('cluster IP" -m tcp -p tcp -d 10.96.0.30'));
    return [...lines.slice(0, at), lines[at + 1], lines[at], ...lines.slice(at + 2)].join('\n');
  });
  expect(isSame(diffOf(balancer, swapped))).toBe(true);
});

test('a range that opens lets everybody outside in, on the node that has the endpoint', () => {
  const open = edited(balancer, web, (text) => text.replaceAll('-s 198.51.100.0/25', '-s 198.51.0.0/16'));
  const { flows, services } = diffOf(balancer, open);
  expect(services.map(({ service, kind }) => `${kind} ${service}`)).toEqual(['changed shop/web']);
  const shown = flows.map(({ nodes, source, destination, old, new: fresh }) => {
    return `${nodes.nodes.join()} ${sourceText(source)} ${destination.address}: ${outcomeText(old)} → ${outcomeText(fresh)}`;
  });
  expect(shown).toContain('node-1 outside 198.51.0.0/16 203.0.113.9: DROP → 10.244.1.5:8080');
  expect(new Set(flows.map(({ destination }) => destination.address))).toEqual(new Set(['203.0.113.9']));
});

test('a node port that closes is said with the number of nodes, and what then answers', () => {
  const closed = edited(balancer, api, (text) => text.replace(/^-A KUBE-NODEPORTS .*\n/gm, ''));
  const diff = diffOf(balancer, closed);
  expect(verdictText(diff)).toBe('1 Service changes, 1 node port closes on 2 nodes, nothing loses its last endpoint');
  expect(new Set(diff.flows.map(({ new: fresh }) => outcomeText(fresh)))).toEqual(new Set(['no Service answers']));
});

test('a Service that goes away is one change, with its flows', () => {
  const less = new Map([...balancer].filter(([path]) => path !== api));
  const diff = diffOf(balancer, less);
  expect(diff.services.map(({ kind, service }) => `${kind} ${service}`)).toEqual(['removed shop/api']);
  expect(diff.flows.every(({ destination }) => destination.services.join() === 'shop/api')).toBe(true);
  expect(verdictText(diff)).toContain('1 Service goes away');
});

test('what only a base file says concerns every Service', () => {
  const base = 'profiles/default/base/first.iptables';
  const unmarked = edited(balancer, base, (text) => text.replace(/^-A KUBE-MARK-MASQ .*\n/m, ''));
  const services = new Set(diffOf(balancer, unmarked).flows.flatMap(({ destination }) => destination.services));
  expect(services).toEqual(new Set(['shop/api', 'shop/proxied', 'shop/web']));
});

test('a bundle that nodes would refuse has no behaviour to compare', () => {
  const broken = edited(balancer, web, (text) => text.replace('-j DROP', '-j LOG'));
  expect(diffBundles(balancer, broken)).toMatchObject([{ code: 'RULE_REFUSED' }]);
});
