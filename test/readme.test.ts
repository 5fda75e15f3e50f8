import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { execa } from 'execa';
import { expect, test } from 'vitest';
import { readRunbook, scriptOf } from './runbooks/runbook.ts';
import { matches } from './scripts/script.ts';

const root = join(import.meta.dirname, '..');
const text = readFileSync(join(root, 'README.md'), 'utf8');
const { blocks } = readRunbook(text);

// Every run of the tests makes the set-up, and `test/netns/demo.test.ts` runs the demo and compares it with what README.md shows.
test('README.md names what a block needs only where another test runs it', () => {
  const named = blocks
    .filter(({ needs }) => needs.length > 0)
    .map(({ needs, text: command }) => [needs.join(), command]);
  expect(named).toEqual([
    ['root', './dev demo'],
    ['network', './dev setup    # packages and a current Node, inside the checkout'],
  ]);
});

test('the commands of README.md do what it shows, in order, in a fresh copy of the checkout', {
  timeout: 60_000,
}, async () => {
  const pasted = blocks.filter(({ needs }) => needs.length === 0);
  const dir = mkdtempSync(join(tmpdir(), 'sluice-readme-'));
  try {
    copyCheckout(join(dir, 'sluice'));
    writeFileSync(join(dir, 'blocks.sh'), scriptOf(pasted, `${dir}/printed`));
    const { exitCode } = await execa('bash', [join(dir, 'blocks.sh')], { cwd: join(dir, 'sluice'), reject: false });
    const printed = (index: number): string => readFileSync(join(dir, 'printed', `${index}.out`), 'utf8');
    const begun = readdirSync(join(dir, 'printed')).filter((name) => name.endsWith('.out')).length;
    expect(exitCode, `block ${begun} of ${pasted.length}:\n${printed(begun - 1)}`).toBe(0);
    for (const [index, { line, prints }] of pasted.entries()) {
      if (prints === undefined) continue;
      expect(matches(printed(index), prints) ? '' : printed(index), `line ${line} prints something else`).toBe('');
    }
  } finally {
    rmSync(dir, { recursive: true });
  }
});

/** What a clone has that its first commands use; the packages, with their Node, are those of this checkout. */
function copyCheckout(to: string): void {
  for (const part of ['bin', 'examples', 'packages', 'package.json']) {
    cpSync(join(root, part), join(to, part), { recursive: true, verbatimSymlinks: true });
  }
  symlinkSync(join(root, 'node_modules'), join(to, 'node_modules'));
}

test('README.md can be read at once: at most 120 lines of at most 160 characters', () => {
  const lines = text.trimEnd().split('\n');
  expect(lines.length).toBeLessThanOrEqual(120);
  expect(lines.filter((line) => line.length > 160)).toEqual([]);
});
