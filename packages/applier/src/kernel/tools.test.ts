import { expect, test } from 'vitest';
import { limits } from '../limits.ts';
import type { Run } from './command.ts';
import { backendFor, type StoreUse, readStoreUse } from './tools.ts';

const none: StoreUse = { rules: 0, isKubelets: false, hasSluice: false, hasKubeProxy: false };
const some = (rules: number, isKubelets = false): StoreUse => ({ ...none, rules, isKubelets });
const ours: StoreUse = { ...none, hasSluice: true };

test.each([
  ['an empty machine', none, none, 'nft', 'nft'],
  ['an empty machine of before', none, none, 'legacy', 'legacy'],
  ['one leftover in the other store', none, some(1), 'nft', 'nft'],
  ['a machine at work in the other store', none, some(limits.storeRulesMin), 'nft', 'legacy'],
  ['many rules in both', some(1), some(500), 'nft', 'nft'],
  ['the kubelet in one, rules in the other', some(1, true), some(500), 'legacy', 'nft'],
  ['rules of Sluice that a state directory was lost of', some(500, true), ours, 'nft', 'legacy'],
  ['the kubelet in both', some(1, true), some(500, true), 'legacy', 'legacy'],
] as const)('%s', (_title, nft, legacy, plain, chosen) => {
  expect(backendFor({ nft, legacy }, plain)).toBe(chosen);
});

test("does not count Sluice's rules as foreign", async () => {
  const save = [
    '*mangle',
    ':KUBE-KUBELET-CANARY - [0:0]',
    'COMMIT',
    '*nat',
    '-A PREROUTING -m comment --comment "kubernetes service portals" -j SLUICE-SERVICES',
    '-A SLUICE-SERVICES -g SLUICE-R-A.aa',
    '-A SLU-SVC-A.aa -j SLUICE-X',
    '-A POSTROUTING -s 10.0.0.0/8 -j MASQUERADE',
    'COMMIT',
  ].join('\n');
  const run: Run = async ({ file }) => ({ exitCode: 0, stdout: file.includes('ip6') ? '' : save, stderr: '', why: '' });
  expect(await readStoreUse('nft', run)).toEqual({ rules: 1, isKubelets: true, hasSluice: false, hasKubeProxy: false });
});
