import { addAll, ruleLimits } from '@sluice/netfilter';
import { bundleLimits, readRuleFile, readVirtualFile, resolveSections } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { sampleBundle, sampleNode } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { scene } from '../../packages/applier/src/testing/scene.fixture.ts';

/** Files of the maximal size, with as many problems as possible; and each limit at its edge. */

const web = 'profiles/default/services/shop/web.iptables';
const { fileBytesMax, lineBytesMax } = bundleLimits;
const { ruleBytesMax, problemsPerFileMax } = ruleLimits;

/** A file full of one line. */
const full = (line: string): string => line.repeat(Math.floor(fileBytesMax / line.length));
const misplaced = '-A KUBE-SVC-A -j X\n';

test.each([
  ['a rule file', () => readRuleFile('x.iptables', full(misplaced))],
  ['an .ipset file', () => readVirtualFile('x.ipset', 'ipset', 'service', full('destroy x\n'))],
  ['a .nft file', () => readVirtualFile('x.nft', 'nft', 'service', full('delete table inet sluice\n'))],
  ['an .ipvs file', () => readVirtualFile('x.ipvs', 'ipvs', 'service', full('-E -t 10.0.0.1:80\n'))],
])('%s with a problem in each line: reports the first problems, and the number of the rest', (_title, read) => {
  const found = read();
  if (!Array.isArray(found)) throw new Error('it was accepted');
  expect(found).toHaveLength(problemsPerFileMax);
  expect(found.at(-1)).toMatchObject({ message: expect.stringMatching(/ \(and \d{6} more problems in this file\)$/) });
});

test.each(['flat', 'tree'] as const)(
  'refuses a bundle with a full file of bad rules with a short message, in layout %s',
  async (layout) => {
    const node = scene();
    node.layout = layout;
    try {
      const files = sampleBundle({ services: { 'shop/web': [1] } });
      const bad = full('-A KUBE-SERVICES -m nope -j ACCEPT\n').slice(0, -(files.get(web) ?? '').length);
      files.set(web, (files.get(web) ?? '').replace('COMMIT', `${bad.slice(0, bad.lastIndexOf('\n') + 1)}COMMIT`));
      const { reconciler } = await node.start();
      const outcome = await reconciler.put(files, true);
      const problems = outcome.kind === 'refused' ? outcome.refusal.problems : [];
      expect(problems).toHaveLength(problemsPerFileMax);
      expect(problems.at(-1)?.message).toMatch(/ more problems in this file\)$/);
    } finally {
      node.end();
    }
  },
);

/** The result for a bundle whose one Service has this text. */
const resolved = (change: (text: string) => string): ReturnType<typeof resolveSections> => {
  const files = sampleBundle({ services: { 'shop/web': [1] } });
  return resolveSections(new Map([...files, [web, change(files.get(web) ?? '')]]), sampleNode);
};
const withRule = (bytes: number): ReturnType<typeof resolveSections> => {
  const [head, tail] = ['-A KUBE-SERVICES -m comment --comment "', '" -j ACCEPT'];
  const rule = `${head}${'x'.repeat(bytes - head.length - tail.length)}${tail}`;
  return resolved((text) => text.replace('COMMIT', `${rule}\nCOMMIT`));
};
const withComment = (bytes: number): ReturnType<typeof resolveSections> =>
  resolved((text) => `# ${'x'.repeat(bytes - 2)}\n${text}`);

test.each([
  ['accepts a rule of the maximal length', () => withRule(ruleBytesMax), true],
  ['refuses a longer rule', () => withRule(ruleBytesMax + 1), false],
  ['accepts a line of the maximal length', () => withComment(lineBytesMax), true],
  ['refuses a longer line', () => withComment(lineBytesMax + 1), false],
])('%s', (_title, read, isTaken) => {
  expect('version' in read()).toBe(isTaken);
});

test('adds a million items to a list', () => {
  const list = [0];
  addAll(
    list,
    Array.from({ length: 1_000_000 }, (_, n) => n),
  );
  expect(list).toHaveLength(1_000_001);
});
