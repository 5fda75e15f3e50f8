// @module-tag test
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { atTier } from '@sluice/testing';
import { matches } from '../scripts/script.ts';
import { observedNode, Repository, reviewPage } from './repository.ts';

/** Each review starts eight programs, on a machine that may be busy. */
const reviewMs = 120_000;

let repository: Repository;
beforeEach(async () => {
  repository = await Repository.create();
}, reviewMs);
afterEach(() => repository.remove());

test('the pull request of the example passes, and the comment describes its changes', {
  timeout: reviewMs,
}, async () => {
  await repository.change();
  await repository.render();
  await repository.commit('shop: search, and a node port for web');
  const review = await repository.review({ SLUICE_REPORT_URL: 'https://ci.example/7' });
  expect(review).toMatchObject({ exit: 0 });
  expect(review.output.split('\n')).toEqual([
    'sluice: rules are rendered: good',
    'sluice: policy: good',
    'sluice: rules do what Services declare: good',
    'sluice: rules are within the budgets: good',
  ]);
  const comment = review.file('comment.md').split('\n');
  expect(comment.slice(1, 4)).toEqual([
    '### Sluice: shop/web opens to the outside',
    '',
    'Gates: render good, policy good, prove good, cost good, parity not run',
  ]);
  expect(comment.length).toBeLessThan(60);
  expect(comment).toContain('- ➕ is added – `shop/search`');
  expect(comment.join('\n')).toMatch(/^- \*\*waived\*\* `NODE_PORT_OPENED` .* `shop\/web`$/m);
  expect(comment.join('\n')).toContain('[The full report](<https://ci.example/7>)');
  expect(review.file('policy.txt')).toMatch(/waived: shop\/web: Node port \d+ of .* will open/);
  expect(JSON.parse(review.file('diff.json'))).toMatchObject({ kind: 'BundleDiff', nodes: { all: 3 } });
  expect(JSON.parse(review.file('policy.sarif'))).toMatchObject({ version: '2.1.0' });
  expect(review.file('policy.junit.xml')).toContain('failures="0"');
  expect(review.file('report.html')).toMatch(/^<!doctype html>/);
});

test('the comparison excludes later merges into main', { timeout: reviewMs }, async () => {
  await repository.change();
  await repository.render();
  await repository.commit('shop: search');
  await repository.git('switch', '-q', 'main');
  repository.edit('manifests/shop/ledger.yaml', (text) => text.replaceAll('198.51.100.7', '198.51.100.8'));
  await repository.render();
  await repository.commit('shop: the ledger moves');
  await repository.git('push', '-q', 'origin', 'main');
  await repository.git('switch', '-q', 'change');
  const review = await repository.review();
  expect(review).toMatchObject({ exit: 0 });
  expect(review.file('comment.md')).not.toContain('ledger');
});

test.each([
  {
    title: 'a change that was not rendered',
    make: async () => {
      await repository.change();
    },
    output: 'rules are rendered: BAD',
    file: 'check.txt',
    found: 'search',
  },
  {
    title: 'the last endpoint of a Service removed',
    make: async () => {
      repository.edit('manifests/shop/api.yaml', (text) => text.replace(/endpoints:\n[^]*$/, 'endpoints: []\n'));
      await repository.render();
    },
    output: 'policy: BAD',
    file: 'policy.txt',
    found: 'Cannot remove the last endpoint of shop/api:grpc 9000/TCP',
  },
  {
    title: 'an expired waiver',
    make: async () => {
      repository.edit('sluice.yaml', (text) => text.replace('2027-03-31', '2026-11-20'));
    },
    output: 'policy: BAD',
    file: 'policy.txt',
    found: 'Cannot waive NODE_PORT_OPENED of shop/web: the waiver expired',
  },
  {
    title: 'a rule edited by hand',
    make: async () => {
      repository.edit('rendered/profiles/default/services/shop/web.iptables', (text) =>
        text.replace('--to-destination 10.244.1.5:8080', '--to-destination 10.244.3.6:9000'),
      );
    },
    output: 'rules do what Services declare: BAD',
    file: 'prove.txt',
    found: 'not as declared',
  },
  {
    title: 'a port renamed away from its endpoints',
    make: async () => {
      repository.edit('manifests/shop/api.yaml', (text) => text.replace('name: grpc', 'name: rpc'));
      await repository.render();
    },
    output: 'policy: BAD',
    file: 'policy.txt',
    found: 'Cannot remove the last endpoint of shop/api:rpc 9000/TCP',
  },
  {
    title: 'an exceeded budget',
    make: async () => {
      repository.edit('sluice.yaml', (text) => text.replace('rules: 500', 'rules: 50'));
    },
    output: 'rules are within the budgets: BAD',
    file: 'cost.txt',
    found: 'rules',
  },
])('$title stops the pipeline', { timeout: reviewMs }, async ({ make, output, file, found }) => {
  await make();
  await repository.commit('shop: a change');
  const review = await repository.review();
  expect(review.output).toContain(output);
  expect(review.file(file)).toContain(found);
  expect(review.exit).toBe(1);
});

test('reports a missing history instead of comparing with nothing', { timeout: reviewMs }, async () => {
  const review = await repository.review({ SLUICE_BASE: 'origin/nowhere' });
  expect(review).toMatchObject({ exit: 2 });
  expect(review.output).toContain('fetch the whole history');
});

test('reviews the first commit of rules without a comparison', {
  timeout: reviewMs,
}, async () => {
  await repository.git('rm', '-rqf', '--cached', 'rendered');
  await repository.git('commit', '-qm', 'without rules');
  await repository.git('push', '-q', 'origin', 'main');
  await repository.commit('with rules');
  const review = await repository.review();
  expect(review).toMatchObject({ exit: 0 });
  expect(review.output).toContain('has no rendered yet');
  expect(review.file('comment.md')).toBe('');
});

describe.each(atTier({ quick: [], all: ['observed'] }))('nodes in %s', (folder) => {
  beforeEach(async () => {
    repository.write(`${folder}/node-1.json`, observedNode(repository, 'node-1'));
    await repository.commit('shop: what node-1 runs');
    await repository.git('push', '-q', 'origin', 'main');
  });

  test('what a change makes different from them is told, and fails where the team says so', {
    timeout: reviewMs,
  }, async () => {
    await repository.change();
    await repository.render();
    await repository.commit('shop: search, and a node port for web');
    const told = await repository.review({ SLUICE_OBSERVED: folder });
    expect(told).toMatchObject({ exit: 0, output: expect.stringMatching(/^sluice: observed: node-1: different: /m) });
    expect(told.file('comment.md')).toMatch(
      /^<details><summary>Observed nodes.*: 1 different<\/summary>\n\n- different: .* – node-1$/m,
    );
    expect(told.file('comment.md')).toMatch(/^Gates: render good, .*, parity 1 different$/m);
    expect(told.file('parity-node-1.txt')).toContain('shop/search');
    expect(told.file('parity-node-1.sarif')).toBe('');
    const gated = await repository.review({ SLUICE_OBSERVED: folder, SLUICE_PARITY: 'gate' });
    expect(gated).toMatchObject({ exit: 1, output: expect.stringMatching(/node-1: different: .*: BAD$/m) });
    expect(JSON.parse(gated.file('parity-node-1.sarif'))).toMatchObject({ version: '2.1.0' });
    expect(gated.file('parity-node-1.junit.xml')).toContain('<failure ');
  });

  test('what the base differs in is left out, and a file that is none stops the pipeline', {
    timeout: reviewMs,
  }, async () => {
    repository.edit('manifests/shop/ledger.yaml', (text) => text.replaceAll('198.51.100.7', '198.51.100.8'));
    await repository.render();
    await repository.commit('shop: the ledger moves');
    await repository.git('push', '-q', 'origin', 'main');
    const left = await repository.review({ SLUICE_OBSERVED: folder, SLUICE_PARITY: 'gate' });
    expect(left).toMatchObject({ exit: 0, output: expect.stringContaining('observed: node-1: equivalent: good') });
    expect(left.file('parity-node-1.txt')).toMatch(/^left out: \d+ differences? that version/m);
    repository.write(`${folder}/node-9.json`, '{}');
    const odd = await repository.review({ SLUICE_OBSERVED: folder });
    expect(odd).toMatchObject({ exit: 2, output: expect.stringContaining('OBSERVATION_INVALID') });
    expect((await repository.review({ SLUICE_OBSERVED: 'nowhere' })).exit).toBe(2);
  });

  test('a node that the change adds is compared whole, and one that left the cluster is named', {
    timeout: reviewMs,
  }, async () => {
    await repository.git('rm', '-rq', '--cached', 'rendered/nodes/node-1');
    await repository.git('commit', '-qm', 'shop: before node-1');
    await repository.git('push', '-q', 'origin', 'main');
    await repository.commit('shop: node-1 is new');
    const added = await repository.review({ SLUICE_OBSERVED: folder, SLUICE_PARITY: 'gate' });
    expect(added.output).toMatch(/^[0-9a-f]{40}:rendered has no node node-1: no difference is left out$/m);
    expect(added.output).toContain('observed: node-1: equivalent: good');
    expect(added.file('parity-node-1.txt')).not.toContain('left out');
    await repository.git('rm', '-rq', 'rendered/nodes/node-1');
    const left = await repository.review({ SLUICE_OBSERVED: folder });
    expect(left.exit).toBe(2);
    expect(left.output).toContain(`Cannot compare ${folder}/node-1.json with rendered: the bundle has no node node-1`);
    expect(left.output).toContain(`Remove ${folder}/node-1.json if the node left the cluster`);
  });
});

test('docs/review.md shows what the example prints', { timeout: reviewMs }, async () => {
  await repository.change();
  await repository.render();
  const [, ...listed] = (/```\n(\$ sluice diff [^]*?)\n```/.exec(reviewPage())?.[1] ?? '').split('\n');
  const { exit, stdout } = await repository.sluice('diff', 'main:rendered', 'rendered');
  const inside = listed.map((line) => (line.trim() === '…' ? '…' : line));
  expect(exit).toBe(1);
  expect(matches(stdout, inside) ? 'as listed' : stdout).toBe('as listed');
});
