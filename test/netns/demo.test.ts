// @module-tag test
import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { runDemo } from '../demo/demo.ts';
import { readRunbook } from '../runbooks/runbook.ts';
import { matches } from '../scripts/script.ts';
import { needKernel } from './privileges.ts';

beforeEach(needKernel);

/** What README.md shows of the demo. */
const shown = readRunbook(readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8')).blocks.find(
  ({ text }) => text === './dev demo',
)?.prints;

test('the demo ends well, and prints what README.md shows', { timeout: 180_000 }, async () => {
  const story: string[] = [];
  await runDemo({ say: (line) => story.push(line), short: true, signal: new AbortController().signal });
  expect(story.at(-1)).toContain('has left nothing on this machine');
  const printed = `${story.join('\n')}\n`;
  expect(matches(printed, shown ?? []) ? '' : printed).toBe('');
});

test('an interrupted demo reports it and leaves nothing behind', async () => {
  const interrupted = new AbortController();
  const say = (line: string): void => {
    if (line.includes('sluiced run')) interrupted.abort();
  };
  const before = scratchDirectories();
  await expect(runDemo({ say, short: true, signal: interrupted.signal })).rejects.toThrow('interrupted');
  expect(scratchDirectories()).toEqual(before);
});

const scratchDirectories = (): readonly string[] =>
  readdirSync(tmpdir()).filter((name) => name.startsWith('sluice-demo-'));
