import type { BundleFiles } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { settingLines } from '../emit/settings.ts';
import { type BundleDiff, diffBundles, isSame } from './diff.ts';
import { bundleOf, edited } from '../example.fixture.ts';
import { verdictText } from '../report/words.ts';

const plain = bundleOf('01-cluster-ip');
const dual = bundleOf('05-dual-stack');
const base = 'profiles/default/base/';

function diffOf(old: BundleFiles, updated: BundleFiles): BundleDiff {
  const diff = diffBundles(old, updated);
  return diff;
}

test.each([
  [
    'established connections are no longer accepted',
    `${base}last.iptables`,
    (text: string) => text.replace(/^.*RELATED,ESTABLISHED.*\n/m, ''),
    { what: 'established', family: 'ipv4', old: 'let through', new: 'left to other rules' },
  ],
  [
    'packets of no connection pass',
    `${base}last.iptables`,
    (text: string) => text.replace(/^.*INVALID.*\n/m, ''),
    { what: 'invalid', family: 'ipv4', old: 'DROP', new: 'left to other rules' },
  ],
  [
    'source ports are taken in order',
    `${base}first.iptables`,
    (text: string) => text.replace(' --random-fully', ''),
    { what: 'source-ports', family: 'ipv4', old: 'at random', new: 'in order' },
  ],
  [
    'a sysctl has another value',
    `${base}sysctl.conf`,
    (text: string) => text.replace('close_wait = 3600', 'close_wait = 60'),
    { what: 'sysctl', old: 'net.netfilter.nf_conntrack_tcp_timeout_close_wait 3600', new: '60' },
  ],
  [
    'a sysctl is not set any more',
    `${base}sysctl.conf`,
    (text: string) => text.replace(/^.*route_localnet.*\n/m, ''),
    { what: 'sysctl', old: 'net.ipv4.conf.all.route_localnet 1' },
  ],
  [
    'a sysctl is set for some kernels',
    `${base}sysctl.conf`,
    (text: string) => `${text}@kernel=4.1..5.8 net.ipv4.vs.conntrack = 1\n`,
    { what: 'sysctl', new: '@kernel=4.1..5.8 net.ipv4.vs.conntrack 1' },
  ],
] as const)('%s', (_title, path, edit, change) => {
  const diff = diffOf(dual, edited(dual, path, edit));
  const nodes = [...dual.keys()].filter((file) => file.endsWith('/node.yaml')).length;
  expect(diff.profiles).toEqual([{ profile: 'default', nodes, ...change }]);
  expect(isSame(diff)).toBe(false);
});

test('reports a change of both families once', () => {
  const both = ['iptables', 'ip6tables'].reduce(
    (files, tool) => edited(files, `${base}first.${tool}`, (text) => text.replace(' --random-fully', '')),
    dual,
  );
  expect(diffOf(dual, both).profiles).toMatchObject([{ what: 'source-ports', old: 'at random', new: 'in order' }]);
  expect(diffOf(dual, both).profiles[0]).not.toHaveProperty('family');
});

test('ignores the order of rules', () => {
  const swapped = edited(plain, `${base}last.iptables`, (text) => {
    const [invalid = '', marked = '', ...rest] = text.split('\n').slice(2);
    return [...text.split('\n').slice(0, 2), marked, invalid, ...rest].join('\n');
  });
  expect(diffOf(plain, swapped).profiles).toEqual([]);
});

test('reports a change of mode, and counts its base files', () => {
  const mixed = bundleOf('11-mixed');
  const moved = new Map(
    [...mixed].flatMap(([path, text]) => {
      if (path.startsWith('profiles/small/')) return [];
      if (path.startsWith('profiles/big/')) return [[path.replace('/big/', '/small/'), text] as const];
      return [[path, text.replace('profile: big', 'profile: small')] as const];
    }),
  );
  const old = new Map([...mixed].filter(([path]) => !path.startsWith('profiles/big/')));
  for (const [path, text] of old) old.set(path, text.replace('profile: big', 'profile: small'));
  const diff = diffOf(old, moved);
  expect(diff.profiles[0]).toMatchObject({ profile: 'small', nodes: 2, what: 'mode', old: 'iptables' });
  expect(diff.profiles[0]?.new).toMatch(/^ipvs, scheduler /);
  expect(diff.services).toEqual([]);
  expect(verdictText(diff)).toMatch(/^profile small changes to mode ipvs on 2 nodes, /);
  const lines = settingLines(diff);
  expect(lines).toContain('~ profile small (2 nodes)');
  expect(lines.filter((line) => line.includes('-A KUBE-'))).toEqual([]);
  expect(lines.find((line) => line.startsWith('~ profiles/small/base/first.iptables: '))).toMatch(
    /\d+ lines of one mode become \d+ of the other$/,
  );
});
