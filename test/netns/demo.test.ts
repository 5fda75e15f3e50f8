// @module-tag test
import { readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { programPath } from '@sluice/testing';
import { execa } from 'execa';
import { beforeEach, expect, test } from 'vitest';
import { runDemo } from '../demo/demo.ts';
import { waitFor } from '../demo/wait.ts';
import { readRunbook } from '../runbooks/runbook.ts';
import { matches } from '../scripts/script.ts';
import { needKernel } from './privileges.ts';

beforeEach(needKernel);

const bin = dirname(programPath('sluiced'));
/** What README.md shows of the demo. */
const shown = readRunbook(readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8')).blocks.find(
  ({ text }) => text === './dev demo',
)?.prints;

test('an interrupted demo reports it and leaves nothing behind', async () => {
  const interrupted = new AbortController();
  const say = (line: string): void => {
    if (line.includes('sluiced run')) interrupted.abort();
  };
  const before = scratchDirectories();
  await expect(runDemo({ say, bin, short: true, signal: interrupted.signal })).rejects.toThrow('interrupted');
  expect(scratchDirectories()).toEqual(before);
});

test('prints what README.md shows; its cluster takes what it proposes to try, and leaves nothing when it ends', {
  timeout: 240_000,
}, async () => {
  const before = scratchDirectories();
  const ended = new AbortController();
  const story: string[] = [];
  const ready = Promise.withResolvers<void>();
  const say = (line: string): void => {
    story.push(line);
    if (line.includes('Ctrl-C here ends everything')) ready.resolve();
  };
  const demo = runDemo({ say, bin, short: true, keep: true, signal: ended.signal });
  await Promise.race([demo, ready.promise]);
  const printed = `${story.join('\n')}\n`;
  expect(matches(printed, shown ?? []) ? '' : printed).toBe('');
  const proposed = story.flatMap((line) => /^\n? {3,5}((?:cd|sed|\.\/on) .*)$/.exec(line)?.[1] ?? []);
  const [enter = 'false', ask = '', flush = '', repair = '', release = '', status = ''] = proposed;
  const typed = async (command: string) => await execa('sh', ['-c', `${enter} && ${command}`], { reject: false });
  const until = (command: string, text: string): Promise<true> =>
    waitFor(`${command} prints ${text}`, 60_000, async () =>
      (await typed(command)).stdout.includes(text) ? true : undefined,
    );
  expect(proposed).toHaveLength(6);
  expect((await typed(ask)).stdout).toMatch(/^\{"answer":"api-[12]","seenAs":"10\.244\.2\.9"\}$/);
  expect((await typed(repair)).stdout).toBe('');
  expect(await typed(flush)).toMatchObject({ exitCode: 0, stderr: '' });
  await until(repair, 'rules were changed');
  expect(await typed(release)).toMatchObject({ exitCode: 0 });
  await until(status, 'BUNDLE_QUARANTINED');
  await until(ask, '"answer"');
  expect(await typed('./on nowhere ls')).toMatchObject({ exitCode: 2, stdout: '' });
  ended.abort();
  await demo;
  expect(story.at(-1)).toContain('has left nothing on this machine');
  expect(scratchDirectories()).toEqual(before);
});

const scratchDirectories = (): readonly string[] =>
  readdirSync(tmpdir()).filter((name) => name.startsWith('sluice-demo-'));
