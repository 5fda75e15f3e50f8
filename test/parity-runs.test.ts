// @module-tag quick
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type ComparedRun, comparedRuns } from './parity/runs.ts';

/** docs/parity.md has the last runs that `test/parity` wrote down. UPDATE_DOCS=1 rewrites its table. */

const page = join(import.meta.dirname, '..', 'docs', 'parity.md');
const [start, end] = ['<!-- runs: written by the tests -->\n', '<!-- end of runs -->\n'];

const named = (run: ComparedRun): string =>
  Object.entries(run.named)
    .map(([name, questions]) => `${name}: ${questions}`)
    .join(', ') || 'none';

const row = (run: ComparedRun): string =>
  `| ${run.kubeProxy} | ${run.mode} | ${run.count} ${run.what} | ${run.packets.toLocaleString('en')} | ${named(run)} | ${run.unnamed} | ${run.date} |\n`;

const table = `| kube-proxy | mode | compared | packets | questions with a named difference | with another one | on |
|---|---|---|---|---|---|---|
${comparedRuns().map(row).join('')}`;

test('docs/parity.md has the last runs', () => {
  const text = readFileSync(page, 'utf8');
  const [before, after] = [text.split(start)[0] ?? '', text.split(end)[1] ?? ''];
  const wanted = `${before}${start}\n${table}\n${end}${after}`;
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(page, wanted);
  expect(readFileSync(page, 'utf8')).toBe(wanted);
});

test('every run that is written down came to its end without a difference of no name', () => {
  expect(comparedRuns().filter(({ unnamed, packets }) => unnamed > 0 || packets === 0)).toEqual([]);
});
