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

test('a comment names observed nodes by their results, the worst first, and how many there are of each', async () => {
  for (let n = 0; n < 23; n++) observe(`node-${n}.json`);
  expect((await review(`different: ${'1 rule, '.repeat(100)}`)).exit).toBe(0);
  const lines = read('out/comment.md').slice(report.length).trim().split('\n');
  expect(lines.slice(0, 3)).toEqual([
    'Gates: render good, policy good, prove good, cost good, parity 23 different',
    '',
    '<details><summary>Observed nodes, against the rules of this change: 23 different</summary>',
  ]);
  expect(lines.slice(4)).toEqual([
    `- ${`different: ${'1 rule, '.repeat(100)}`.slice(0, 200)} – node-0, node-1, node-10, node-11, node-12 and 18 more`,
    '',
    '</details>',
  ]);
});

test('results of many kinds are cut, after those that differ', async () => {
  for (let n = 0; n < 8; n++) observe(`node-${n}.json`);
  const result =
    '$(case $2 in *[0-1].json) echo equivalent ;; *) basename $2 .json | sed s/node-/different:\\ / ;; esac)';
  await review(result);
  const comment = read('out/comment.md');
  expect(comment).toContain('parity 6 different, 2 equivalent\n');
  expect(comment).toContain(
    '\n- different: 2 – node-2\n- different: 3 – node-3\n- different: 4 – node-4\n- and 4 other results\n',
  );
});

test.each([
  [{ SLUICE_OBSERVED: '' }, 'parity not run'],
  [{ SLUICE_PARITY: 'gate' }, 'parity good: 1 equivalent'],
])('the line of the gates with %j ends with %s', async (env, end) => {
  observe('node-1.json');
  await review('equivalent', env);
  expect(read('out/comment.md')).toContain(`\n\nGates: render good, policy good, prove good, cost good, ${end}\n`);
});

test('a file that cannot be compared is an error in the line of the gates', async () => {
  observe('node-1.json');
  expect((await review('nothing')).exit).toBe(2);
  expect(read('out/comment.md')).toContain(', parity ERROR\n');
});
