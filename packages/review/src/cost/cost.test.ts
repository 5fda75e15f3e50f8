import { orProblems } from '../bundle/node.ts';
import { expect, test } from 'vitest';
import { exceededBudgets } from './budgets.ts';
import { printCost } from '../emit/cost.ts';
import { costOf } from './cost.ts';
import { loadSeconds } from './load-model.ts';
import { bundleOf, edited } from '../example.fixture.ts';
import { nftBundle, nftService } from '../nft.fixture.ts';

test('reports one row per profile with its number of nodes, in any mode', () => {
  const rows = costOf(bundleOf('11-mixed')).map(({ profile, nodes, virtual }) => [profile, nodes, virtual?.servers]);
  expect(rows).toEqual([
    ['big', 1, 2],
    ['small', 1, undefined],
  ]);
});

test('an added rule counts once, for the node that has it', () => {
  const plain = bundleOf('01-cluster-ip');
  const path = 'profiles/default/services/shop/web.iptables';
  const line = /^-A KUBE-SERVICES .*$/m.exec(plain.get(path) ?? '')?.[0] ?? '';
  const more = edited(plain, path, (text) => text.replace(line, `${line}\n@node=node-2 ${line}`));
  const [before, after] = [costOf(plain)[0]!, costOf(more)[0]!];
  expect(after.rules).toBe(before.rules + 1);
  expect(after.node).toBe('node-2');
});

test('layout tree has other costs than flat, and mode ipvs has one layout', () => {
  const [flat, tree] = [costOf(bundleOf('01-cluster-ip')), costOf(bundleOf('01-cluster-ip'), 'tree')];
  expect(tree[0]?.layout).toBe('tree');
  expect(tree[0]?.chains).not.toBe(flat[0]?.chains);
  expect(costOf(bundleOf('10-ipvs'), 'tree')).toEqual(costOf(bundleOf('10-ipvs')));
});

test('a budget is exceeded above its value, not at it', () => {
  const [cost] = costOf(bundleOf('01-cluster-ip'));
  expect(exceededBudgets([cost!], { rules: cost!.rules })).toEqual([]);
  expect(exceededBudgets([cost!], { rules: cost!.rules - 1 })).toMatchObject([
    { what: 'rules', budget: cost!.rules - 1, cost: cost!.rules },
  ]);
});

test('reports problems of a bundle that nodes would refuse', () => {
  const path = 'profiles/default/services/shop/web.iptables';
  const broken = edited(bundleOf('01-cluster-ip'), path, (text) => text.replace(/-j KUBE-SVC-\S+$/m, '-j LOG'));
  expect(orProblems(() => costOf(broken))).toMatchObject([{ code: 'RULE_REFUSED' }]);
});

test('mode nftables costs elements: its chains do not grow with Services, and a walk is as long for any', () => {
  const more = new Map([
    ...nftBundle,
    [nftService('more'), (nftBundle.get(nftService('web')) ?? '').replaceAll('10.96.0.10', '10.96.0.99')],
  ]);
  const [before, after] = [costOf(nftBundle)[0]!, costOf(more)[0]!];
  // A ClusterIP, its verdict, two endpoints; each endpoint with itself is there already.
  expect(after.elements).toBe(before.elements! + 4);
  expect([after.rules, after.chains, after.longestWalk]).toEqual([before.rules, before.chains, before.longestWalk]);
  expect(after.bytes).toBeGreaterThan(before.bytes);
  expect(before.chains).toBeGreaterThan(30);
  expect(before.longestWalk).toBeGreaterThan(20);
  expect(costOf(nftBundle, 'tree')).toEqual(costOf(nftBundle));
  const [, row = ''] = printCost([before], {}, [], 'text').split('\n');
  expect(row).toMatch(/^default +- +node-\d .* s +-$/);
});

test('the estimate for mode nftables is the measured load of docs/performance.md', () => {
  const load = { rules: 141, chains: 36 };
  const seconds = [12_000, 120_000].map((elements) => loadSeconds('nft', 'flat', { ...load, elements }));
  expect(seconds[0]).toBeCloseTo(0.086, 1);
  expect(seconds[1]).toBeCloseTo(0.74, 2);
});
