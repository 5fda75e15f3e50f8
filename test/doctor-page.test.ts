import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { causes } from '@sluice/netfilter';
import { expect, test } from 'vitest';

const page = join(import.meta.dirname, '..', 'docs', 'doctor.md');
const before = '<!-- causes -->\n';
const table = `| code | means |\n|---|---|\n${Object.entries(causes)
  .map(([code, meaning]) => `| \`${code}\` | ${meaning} |\n`)
  .join('')}`;
const [head = ''] = readFileSync(page, 'utf8').split(before);
const text = `${head}${before}\n${table}`;

/** UPDATE_DOCS=1 rewrites the table. */
if (process.env['UPDATE_DOCS'] === '1') writeFileSync(page, text);

test('docs/doctor.md has every cause, in the order of precedence', () => {
  expect(readFileSync(page, 'utf8')).toBe(text);
});

test('codes are words in capitals, and meanings are sentences without a full stop', () => {
  for (const [code, meaning] of Object.entries(causes)) {
    expect(code).toMatch(/^[A-Z0-9]+(_[A-Z0-9]+)*$/);
    expect(meaning).toMatch(/[^.]$/);
  }
});
