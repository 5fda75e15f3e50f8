// @module-tag all
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { expect, test } from 'vitest';
import { matches } from '../scripts/script.ts';
import { needKernel } from '../netns/privileges.ts';
import { type Block, readRunbook, scriptOf } from './runbook.ts';

const root = join(import.meta.dirname, '..', '..');
const limitMs = 240_000;

const blocksOf = (name: string): readonly Block[] =>
  readRunbook(readFileSync(join(root, 'docs/tutorial', name), 'utf8')).blocks;

/** Runs the blocks of a tutorial in the checkout, as somebody with an empty home. Returns the output of each. */
function run(blocks: readonly Block[]): readonly string[] {
  const work = mkdtempSync(join(tmpdir(), 'sluice-tutorial-'));
  const author = { GIT_AUTHOR_NAME: 'alice', GIT_AUTHOR_EMAIL: 'alice@example.com' };
  const committer = { GIT_COMMITTER_NAME: 'alice', GIT_COMMITTER_EMAIL: 'alice@example.com' };
  try {
    writeFileSync(join(work, 'blocks.sh'), scriptOf(blocks, `${work}/out`));
    const { exitCode } = execaSync('bash', [join(work, 'blocks.sh')], {
      cwd: root,
      env: { HOME: work, GIT_CONFIG_SYSTEM: '/dev/null', LC_ALL: 'C', ...author, ...committer },
      reject: false,
      timeout: limitMs,
      stdin: 'ignore',
    });
    const steps = readFileSync(join(work, 'out/steps'), 'utf8').trimEnd().split('\n');
    const last = steps.length - 1;
    if (exitCode !== 0) throw new Error(`${steps[last]}: ${readFileSync(join(work, `out/${last}.out`), 'utf8')}`);
    return blocks.map((_block, index) => readFileSync(join(work, `out/${index}.out`), 'utf8'));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** What blocks print otherwise than the page shows: line and output. */
function surprises(blocks: readonly Block[]): readonly string[] {
  const outputs = run(blocks);
  return blocks.flatMap(({ line, prints }, index) => {
    const output = outputs[index] ?? '';
    return prints === undefined || matches(output, prints) ? [] : [`line ${line} prints:\n${output}`];
  });
}

test('docs/tutorial/first-bundle.md: every command prints what is shown', { timeout: limitMs + 10_000 }, () => {
  const blocks = blocksOf('first-bundle.md');
  expect(blocks.length).toBeGreaterThan(8);
  expect(surprises(blocks)).toEqual([]);
});

test('docs/tutorial/a-node.md: the demo prints what is shown', { timeout: limitMs + 10_000 }, (context) => {
  needKernel(context);
  expect(surprises(blocksOf('a-node.md'))).toEqual([]);
});

test('the tutorials need no stand-in', () => {
  for (const name of ['first-bundle.md', 'a-node.md']) expect(blocksOf(name).flatMap(({ needs }) => needs)).toEqual([]);
});
