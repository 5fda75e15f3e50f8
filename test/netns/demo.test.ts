// @module-tag test
import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { beforeEach, expect, test } from 'vitest';
import { runDemo } from '../demo/demo.ts';
import { needKernel } from './privileges.ts';

beforeEach(needKernel);

test('the demo ends well, from the manifests to the way back', async () => {
  const story: string[] = [];
  await runDemo({ say: (line) => story.push(line), short: true, signal: new AbortController().signal });
  expect(story.at(-1)).toContain('That is all');
});

test('an interrupted demo says so and leaves nothing behind', async () => {
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
