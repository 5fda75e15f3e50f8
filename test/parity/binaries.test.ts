// @module-tag quick
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { minors, minorsAt, moduleOf, newest, ofKubernetes, pinnedIn, workloadsModule } from './binaries.ts';

test.each([
  ['quick', false, [newest]],
  ['test', false, [newest]],
  ['all', false, minors],
  ['soak', false, minors],
  ['all', true, [newest]],
] as const)('tier %s compares with the versions for its time (share of CI: %s)', (tier, share, expected) => {
  expect(minorsAt(tier, share)).toEqual(expected);
});

test('every version is pinned in the folder of its minor version', () => {
  expect(readdirSync(join(import.meta.dirname, 'versions')).toSorted()).toEqual([...minors]);
  for (const minor of minors) {
    const { version, variables } = ofKubernetes('kube-proxy', minor);
    expect(version.split('.').slice(0, 2).join('.')).toBe(`v${minor}`);
    expect(variables).toMatchObject({ 'k8s.io/component-base/version.gitVersion': version });
  }
});

test('what starts pods is of the newest version, too, with the same parts', () => {
  const partsOf = (module: string): readonly string[] =>
    [...readFileSync(join(module, 'go.mod'), 'utf8').matchAll(/^\t(k8s\.io\/\S+ => .*)$/gm)].map(
      ([, part = '']) => part,
    );
  expect(pinnedIn(workloadsModule, 'k8s.io/kubernetes')).toBe(pinnedIn(moduleOf(newest), 'k8s.io/kubernetes'));
  expect(partsOf(workloadsModule)).toEqual(partsOf(moduleOf(newest)));
  expect(partsOf(workloadsModule).length).toBeGreaterThan(20);
});
