import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { programPath } from '@sluice/testing';
import { execaSync } from 'execa';
import { matches } from '../scripts/script.ts';
import { type Block, type Runbook, runbookOf, scriptOf } from './runbook.ts';

const root = join(import.meta.dirname, '..', '..');

/** A block that waits forever ends with it; `unshare` itself reacts only to SIGKILL while its child runs. */
export const limitMs = 240_000;

/**
 * Runs the blocks of a page on a machine of its own, after those of the page that it continues.
 * @param env variables for its scene
 * @param timeout in milliseconds
 * @returns what blocks print otherwise than the page shows: line and output
 * @throws with the output of the block that failed
 */
export function surprises(
  page: Runbook,
  env: Readonly<Record<string, string>> = {},
  timeout = limitMs,
): readonly string[] {
  const before = page.after === undefined ? [] : runbookOf(page.after).blocks;
  const outputs = run(before, sceneOf(page), page.blocks, { env, timeout });
  return page.blocks.flatMap(({ line, prints }, index) => {
    const output = outputs[index] ?? '';
    return prints === undefined || matches(output, prints) ? [] : [`line ${line} prints:\n${output}`];
  });
}

function run(
  before: readonly Block[],
  scene: string,
  blocks: readonly Block[],
  options: { readonly env: Readonly<Record<string, string>>; readonly timeout: number },
): readonly string[] {
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
      killSignal: 'SIGKILL',
      stdin: 'ignore',
      ...options,
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
