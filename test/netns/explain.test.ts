// @module-tag test
import type { BundleFiles } from '@sluice/bundle';
import { programPath } from '@sluice/testing';
import { execaSync } from 'execa';
import { beforeEach, expect, test } from 'vitest';
import { readTree } from '../../packages/renderer/src/load/tree.ts';
import { explain } from '../../packages/review/src/explain/explain.ts';
import { listExamples } from '../../tools/examples.ts';
import { needKernel } from './privileges.ts';
import { feed, inScratchNamespace } from './scratch.ts';

beforeEach(needKernel);

const sluice = programPath('sluice');
const chosen = new Set([
  '03-load-balancer',
  '04-affinity-and-udp',
  '05-dual-stack',
  '07-policies',
  '10-ipvs',
  '13-nftables',
]);
const examples = listExamples().flatMap(({ name, output }) => {
  const files = readTree(output);
  return chosen.has(name) && files instanceof Map ? [{ name, output, files: files as BundleFiles }] : [];
});

const show = (output: string, ...more: readonly string[]): string =>
  execaSync(sluice, ['show', output, '--node', 'node-1', ...more], { stripFinalNewline: false }).stdout;

/** Lines that `sluice explain` finds no place for in the bundle. */
const unexplained = (files: BundleFiles, lines: readonly string[]): readonly string[] =>
  lines.filter((line) => {
    const found = explain(files, line);
    return found === undefined || 'code' in found;
  });

/** Rules with their counters, and chains other than the kernel's own. */
const ruleLine = /^(?:\[\d+:\d+\] -A |:(?:KUBE|SLU))/;

test.each(
  examples
    .filter(({ name }) => name !== '10-ipvs' && name !== '13-nftables')
    .flatMap((example) => (['flat', 'tree'] as const).map((layout) => ({ ...example, layout }))),
)('explains every line that a kernel prints for $name in layout $layout', ({ output, files, layout }) => {
  for (const tool of ['iptables', 'ip6tables']) {
    const text = show(output, '--tool', tool, '--layout', layout);
    if (text === '') continue;
    const saved = inScratchNamespace(`${feed(`${tool}-restore --noflush`, text)}\n${tool}-save -c\n`);
    const lines = saved.split('\n').filter((line) => ruleLine.test(line));
    expect(lines.length).toBeGreaterThan(10);
    expect(unexplained(files, lines)).toEqual([]);
  }
});

test.each(['list', 'save'])('explains every set and entry that `ipset %s` prints for 10-ipvs', (verb) => {
  const { output, files } = examples.find(({ name }) => name === '10-ipvs')!;
  const printed = inScratchNamespace(`${feed('ipset restore', show(output, '--tool', 'ipset'))}\nipset ${verb}\n`);
  const about = /^(?:Type|Revision|Header|Size in memory|References|Number of entries|Members):/;
  const lines = printed.split('\n').filter((line) => line !== '' && !about.test(line));
  expect(lines.length).toBeGreaterThan(50);
  expect(unexplained(files, lines)).toEqual([]);
});

test('explains every set, map and element that `nft list table` prints for 13-nftables', () => {
  const { output, files } = examples.find(({ name }) => name === '13-nftables')!;
  const printed = inScratchNamespace(
    `${feed('nft -f -', show(output, '--tool', 'nft'))}\nnft -n list table inet sluice\n`,
  );
  const sets = [...printed.matchAll(/^\t(?:set|map) (\S+) \{\n([\s\S]*?)^\t\}/gm)];
  // Networks of pods and addresses of the node are variables in the files.
  const written = sets.filter(([, name = '']) => !/^(?:pods|keep|node)[46]$/.test(name));
  const elements = written.flatMap(([, , body = '']) =>
    (/elements = \{ ([\s\S]*?) \}/.exec(body)?.[1] ?? '').split(/,\s+/).filter((one) => one !== ''),
  );
  expect(sets.length).toBeGreaterThan(20);
  expect(elements.length).toBeGreaterThan(100);
  expect(unexplained(files, [...sets.map(([, name = '']) => name), ...elements])).toEqual([]);
});
