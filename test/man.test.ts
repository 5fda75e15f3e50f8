import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { buildProgram as buildSluiced } from '../packages/applier/src/program.ts';
import { exitMeanings } from '../packages/cli/src/exit-codes.ts';
import { buildProgram as buildSluice } from '../packages/sluice/src/program.ts';
import { manPage } from '../tools/man.ts';

const root = join(import.meta.dirname, '..');
const directory = join(root, 'docs', 'man');

const exitCodes = Object.entries(exitMeanings).map(([code, meaning]) => [Number(code), meaning] as const);

const pages = {
  'sluice.1': manPage(buildSluice(), {
    section: 1,
    exitCodes: exitCodes.filter(([code]) => code <= 2),
    seeAlso: ['sluiced (8)', 'iptables-restore (8)', 'git (1)'],
  }),
  'sluiced.8': manPage(buildSluiced(), {
    section: 8,
    exitCodes,
    seeAlso: ['sluice (1)', 'iptables (8)', 'systemctl (1)'],
  }),
};

/** UPDATE_DOCS=1 writes the pages again. */
if (process.env['UPDATE_DOCS'] === '1') {
  mkdirSync(directory, { recursive: true });
  for (const [name, text] of Object.entries(pages)) writeFileSync(join(directory, name), text);
}

test.each(Object.entries(pages))('docs/man/%s is up to date', (name, text) => {
  expect(readFileSync(join(directory, name), 'utf8')).toBe(text);
});

test.skipIf(!existsSync('/usr/bin/groff')).each(Object.entries(pages))(
  'groff formats %s without a warning (needs groff)',
  (_name, text) => {
    const script = 'exec groff -man -Tascii -ww -z 2>&1';
    expect(execFileSync('/bin/sh', ['-c', script], { input: text, encoding: 'utf8' })).toBe('');
  },
);
