// @module-tag test
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { inTurn, programPath } from '@sluice/testing';
import { execaSync } from 'execa';
import { beforeEach, describe, expect, test } from 'vitest';
import { needBackend, needKernel } from '../netns/privileges.ts';
import { matches } from '../scripts/script.ts';
import { type Block, calledIn, type Runbook, runbookNames, runbookOf, scriptOf } from './runbook.ts';

const root = join(import.meta.dirname, '..', '..');

/** How often each runbook needs a command that only a real host has: a new one has to be a decision. */
const standInCalls: Readonly<Record<string, Readonly<Record<string, number>>>> = {
  'adopt-node.md': { kubectl: 2, systemctl: 3 },
  'air-gapped.md': {},
  'carry.md': {},
  'first-install.md': { 'apt-get': 1, scp: 2, systemctl: 1 },
  'from-kube-proxy.md': { kubectl: 3, systemctl: 2 },
  'halted.md': { 'apt-get': 1, journalctl: 1 },
  'key-rotation.md': { scp: 6, systemctl: 1 },
  'rollback.md': { scp: 1, systemctl: 1 },
};

/** Programs that some machines lack. */
const programs: Readonly<Record<string, readonly string[]>> = { 'carry.md': ['/usr/bin/rsync'] };

describe.each(runbookNames)('docs/runbooks/%s', (name) => {
  test('marks the commands of each block that need a real host', () => {
    const { blocks } = runbookOf(name);
    for (const { line, text, needs } of blocks) expect(calledIn(text), `line ${line}`).toEqual(needs);
    const names = blocks.flatMap(({ needs }) => needs);
    const counts = Object.fromEntries(
      [...new Set(names)].toSorted().map((one) => [one, names.filter((other) => other === one).length]),
    );
    expect(counts).toEqual(standInCalls[name]);
  });
});

/** A block that waits forever ends with it; `unshare` itself reacts only to SIGKILL while its child runs. */
const limitMs = 240_000;

/** Runs blocks on a machine of their own. @returns the output of each. Throws with the output of the one that failed */
function run(before: readonly Block[], scene: string, blocks: readonly Block[]): readonly string[] {
  const work = mkdtempSync(join(tmpdir(), 'sluice-runbook-'));
  try {
    const script = join(work, 'blocks.sh');
    writeFileSync(
      script,
      `${scriptOf(before, `${work}/before`)}${scene}\ncd /root\n${scriptOf(blocks, `${work}/own`)}`,
    );
    const args = [
      '--net',
      '--mount',
      '--pid',
      '--fork',
      '--kill-child',
      '--mount-proc',
      'sh',
      join(import.meta.dirname, 'stage.sh'),
      root,
      script,
      dirname(programPath('sluice')),
    ];
    const { exitCode, stderr, stdout } = execaSync('unshare', args, {
      reject: false,
      timeout: limitMs,
      killSignal: 'SIGKILL',
      stdin: 'ignore',
    });
    if (exitCode !== 0) throw new Error(`exit code ${exitCode}\n${lastStep(work)}\n${stdout}\n${stderr}`);
    return blocks.map((_block, index) => readFileSync(join(work, 'own', `${index}.out`), 'utf8'));
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** The last block that ran, and its output. */
function lastStep(work: string): string {
  for (const folder of ['own', 'before']) {
    try {
      const last =
        readFileSync(join(work, folder, 'steps'), 'utf8')
          .trimEnd()
          .split('\n')
          .at(-1) ?? '';
      const index = /^block (\d+)/.exec(last)?.[1] ?? '0';
      return `${folder}: ${last}\n${readFileSync(join(work, folder, `${index}.out`), 'utf8')}`;
    } catch {
      // The output of the block does not exist yet.
    }
  }
  return 'no block was started';
}

const sceneOf = ({ scene }: Runbook): string =>
  scene === undefined ? '' : readFileSync(join(import.meta.dirname, 'scenes', `${scene}.sh`), 'utf8');

describe('on a machine of its own', () => {
  beforeEach(needKernel);
  beforeEach((context) => needBackend(context, 'nft'));

  test.for(inTurn(runbookNames, 3))(
    'every block of docs/runbooks/%s does what it says',
    { timeout: limitMs + 10_000 },
    (name, context) => {
      const missing = (programs[name] ?? []).find((path) => !existsSync(path));
      if (missing !== undefined) return context.skip(`${missing} is missing: apt-get install ${basename(missing)}`);
      const runbook = runbookOf(name);
      const before = runbook.after === undefined ? [] : runbookOf(runbook.after).blocks;
      const outputs = run(before, sceneOf(runbook), runbook.blocks);
      for (const [index, { line, prints }] of runbook.blocks.entries()) {
        if (prints === undefined) continue;
        const output = outputs[index] ?? '';
        expect(matches(output, prints) ? '' : output, `line ${line} does not print the shown output`).toBe('');
      }
    },
  );
});
