// @module-tag test
import { atTier } from '@sluice/testing';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { manyServices, manyServicesConfig } from './many-services.ts';
import { observedNode, Repository } from './repository.ts';

/** Renders, and reviews, as a pipeline does: some ten programs, on a machine that may be busy. */
const reviewMs = 180_000;
const bytesMax = 8_000;
const linesMax = 60;

const few = {
  count: 5,
  headline:
    'team-0/orders-frontend-0 loses its last endpoint, 2 Services open to the outside, team-2/orders-frontend-2 changes its source address',
  counts: [1, 2, 1, 1, 2, 1],
  sentences: 8,
};
const many = {
  count: 341,
  headline:
    '43 Services lose their last endpoint, 128 Services open to the outside, 43 Services change their source address',
  counts: [43, 128, 43, 43, 42, 86, 42, 43],
  sentences: 11,
};
const namesIn = (line: string): readonly string[] => line.match(/`[^`]*`/g) ?? [];

let repository: Repository;
beforeEach(async () => {
  repository = await Repository.create();
}, reviewMs);
afterEach(() => repository.remove());

/** The comment on a change of that many Services of both families, in every way, beside a node as it was before. */
async function commentOn(count: number): Promise<string> {
  await repository.git('rm', '-rq', 'manifests', 'rendered', 'allocations');
  repository.write('sluice.yaml', manyServicesConfig);
  repository.write('manifests/all.json', manyServices(count, 'before'));
  await repository.render();
  repository.write('observed/node-1.json', observedNode(repository, 'node-1'));
  await repository.commit('before');
  await repository.git('push', '-q', 'origin', 'main');
  await repository.git('switch', '-qc', 'change');
  repository.write('manifests/all.json', manyServices(count, 'after'));
  await repository.render();
  await repository.commit('after');
  const review = await repository.review({ SLUICE_REPORT_URL: 'https://ci.example/7', SLUICE_OBSERVED: 'observed' });
  expect(review).toMatchObject({ exit: 1, output: expect.stringContaining('sluice: policy: BAD') });
  return review.file('comment.md').trimEnd();
}

/** What is seen while the details are folded. */
const unfolded = (comment: string): readonly string[] =>
  comment
    .replaceAll(/<details><summary>(.*)<\/summary>[^]*?<\/details>/g, '▸ $1')
    .split('\n')
    .filter((line) => line !== '');

test.each(
  atTier<readonly { count: number; headline: string; counts: readonly number[]; sentences: number }[]>({
    quick: [few],
    all: [few, many],
  }),
)(
  'the comment on a change of $count Services of both families is short, and folds what a reader opens when he wants it',
  { timeout: reviewMs },
  async ({ count, headline, counts, sentences }) => {
    const comment = await commentOn(count);
    expect(Buffer.byteLength(comment)).toBeLessThanOrEqual(bytesMax);
    expect(comment.split('\n').length).toBeLessThanOrEqual(linesMax);
    const seen = unfolded(comment);
    expect(seen.slice(1, 3)).toEqual([
      `### Sluice: ${headline}`,
      'Gates: render good, policy BAD, prove good, cost good, parity 1 different',
    ]);
    const severity = /^- \S+ \*\*(\d+) [a-z ]+\*\*$/u;
    expect(seen.flatMap((line) => severity.exec(line)?.[1] ?? []).map(Number)).toEqual(counts);
    expect(seen.filter((line) => line.startsWith('▸')).map((line) => line.replace(/:.*/, ''))).toEqual([
      '▸ What changes',
      '▸ Policy',
      '▸ Observed nodes, against the rules of this change',
    ]);
    const listed = comment.split('\n').filter((line) => /^- \S+ [a-z][^*]* – `/u.test(line));
    expect(listed).toHaveLength(sentences);
    // A change of both families is one change: no sentence names a Service twice, and none is there for each family.
    for (const line of listed) expect(new Set(namesIn(line)).size).toBe(namesIn(line).length);
    expect(new Set(listed.map((line) => line.replace(/ – .*/, ''))).size).toBe(listed.length);
  },
);
