// @module-tag test
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  layOut,
  matches,
  type StepResult,
  readScript,
  rewrite,
  runStep,
  type Script,
  type ScriptStep,
} from './scripts/script.ts';

const folder = join(import.meta.dirname, 'scripts');
const texts = readdirSync(folder)
  .filter((name) => name.endsWith('.txt'))
  .map((name) => ({ name, text: readFileSync(join(folder, name), 'utf8') }));

/** With UPDATE_SCRIPTS=1 every script is rewritten with the output of its commands: review the diff. */
const updates = process.env['UPDATE_SCRIPTS'] === '1';

describe.concurrent('terminal scripts', () => {
  test.each(texts.map(({ name, text }) => ({ name, text, script: readScript(text) })))(
    '$script.title ($name)',
    { timeout: 180_000 },
    async ({ name, text, script }) => {
      const wrong = new Map<ScriptStep, StepResult>();
      await runScript(script, (step, ran) => {
        const where = `${name}:${step.line}: $ ${step.command}`;
        expect(ran.exit === 0 ? ran.before : ran.after, `${where} failed, and left files or processes behind`).toEqual(
          ran.before,
        );
        if (!updates) expectListed(where, step, ran);
        else if (!isListed(step, ran)) wrong.set(step, ran);
      });
      if (wrong.size > 0) writeFileSync(join(folder, name), rewrite(text, wrong));
    },
  );
});

async function runScript(script: Script, check: (step: ScriptStep, ran: StepResult) => void): Promise<void> {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-script-'));
  try {
    layOut(script, dir);
    for (const step of script.steps) check(step, await runStep(step, dir));
  } finally {
    rmSync(dir, { recursive: true });
  }
}

function isListed(step: ScriptStep, { stdout, stderr, exit }: StepResult): boolean {
  return matches(stdout, step.stdout) && matches(stderr, step.stderr) && exit === step.exit;
}

/** Fails with a diff of the listed and the real output. */
function expectListed(where: string, step: ScriptStep, ran: StepResult): void {
  const listed = { where, stdout: step.stdout, stderr: step.stderr, exit: step.exit };
  const { stdout, stderr, exit } = ran;
  const actual = { where, stdout: stdout.split('\n'), stderr: stderr.split('\n'), exit };
  expect(isListed(step, ran) ? listed : actual).toEqual(listed);
}

test.each([
  ['one line', 'a\n', ['a'], true],
  ['another line', 'a\n', ['b'], false],
  ['one line more than listed', 'a\nb\n', ['a'], false],
  ['one line less than listed', 'a\n', ['a', 'b'], false],
  ['an ellipsis within a line', 'at 12 ms\n', ['at … ms'], true],
  ['an ellipsis for lines', 'a\nb\nc\n', ['a', '…'], true],
  ['an ellipsis for lines before a wrong one', 'a\nb\nc\n', ['…', 'b'], false],
  ['nothing', '', [], true],
])('a script compares %s', (_title, text, lines, equal) => {
  expect(matches(text, lines)).toBe(equal);
});
