import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { afterEach, beforeEach, expect, test } from 'vitest';

const script = join(import.meta.dirname, '..', '..', 'integrations', 'review.sh');
const report = '<!-- sluice: report -->\n### Sluice: Nothing changes\n';

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-review-'));
  mkdirSync(join(dir, 'observed'));
  mkdirSync(join(dir, 'out'));
  writeFileSync(join(dir, 'out', 'comment.md'), report);
});
afterEach(() => rmSync(dir, { recursive: true }));

const observe = (file: string): void => writeFileSync(join(dir, 'observed', file), '{}');
const read = (file: string): string => readFileSync(join(dir, file), 'utf8');

/** Reviews with a stand-in for sluice that records its verbs, and prints a result for each observed node. */
async function review(result: string, env: Readonly<Record<string, string>> = {}) {
  const sluice = join(dir, 'sluice');
  const print = `[ "$1" != parity ] || echo "$(basename "$2" .json): ${result}"`;
  writeFileSync(sluice, `#!/bin/sh\necho "$1" >>${dir}/calls\n${print}\n`);
  chmodSync(sluice, 0o755);
  writeFileSync(join(dir, 'calls'), '');
  const variables = { SLUICE: sluice, SLUICE_OUT: join(dir, 'out'), SLUICE_OBSERVED: 'observed', ...env };
  const { exitCode, stderr } = await execa(script, [], { cwd: dir, env: variables, reject: false });
  return { exit: exitCode, output: stderr, calls: read('calls') };
}

test.each(['tell', 'gate', ''])('SLUICE_PARITY=%s starts a review', async (parity) => {
  observe('node-1.json');
  const { exit, calls } = await review('equivalent', { SLUICE_PARITY: parity });
  expect(exit).toBe(0);
  expect(calls).toContain('parity\n');
});

test.each(['Gate', 'true', 'gate tell'])('SLUICE_PARITY=%s is refused before anything runs', async (parity) => {
  observe('node-1.json');
  expect(await review('equivalent', { SLUICE_PARITY: parity })).toEqual({
    exit: 2,
    output: `sluice: SLUICE_PARITY is neither tell nor gate: ${parity}`,
    calls: '',
  });
});

test.each([
  ['::error::x.json', '??error??x.json'],
  ['a\n::stop-commands::b.json', 'a???stop-commands??b.json'],
  ['a\u001B[2J.json', 'a??2J.json'],
])('a file in observed/ named %j is refused, and node-1.json is compared', async (file, shown) => {
  observe(file);
  observe('node-1.json');
  const { exit, output } = await review('equivalent');
  expect(exit).toBe(2);
  expect(output).toContain(`sluice: observed has a file that is not named NODE.json: ${shown}`);
  expect(output).not.toContain(file);
  expect(output).toContain('sluice: observed: node-1: equivalent');
});

test('a comment gets 20 results of at most 200 characters, and the count of the rest', async () => {
  for (let n = 0; n < 23; n++) observe(`node-${n}.json`);
  expect((await review(`different: ${'1 rule, '.repeat(100)}`)).exit).toBe(0);
  const lines = read('out/comment.md').slice(report.length).trim().split('\n');
  expect(lines).toHaveLength(4 + 20 + 1);
  expect(lines[0]).toBe('Gates: render good, policy good, prove good, cost good, parity 23 different');
  expect(lines[2]).toBe('#### Observed nodes, against the rules of this change');
  expect(Math.max(...lines.map((line) => line.length))).toBe(200);
  expect(lines.at(-1)).toBe('- and 3 more');
});
