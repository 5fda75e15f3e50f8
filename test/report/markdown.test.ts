import { join } from 'node:path';
import type { BundleFiles } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { diffSize, webText } from '../../packages/review/src/emit/report/diff-size.ts';
import {
  commentCharactersMax,
  commentMark,
  type MarkdownOptions,
  reportMarkdown,
} from '../../packages/review/src/emit/report/markdown.ts';
import { readTree } from '../../packages/renderer/src/load/tree.ts';
import { type ChangeReport, reportOn } from '../../packages/review/src/report/report.ts';

const examples = join(import.meta.dirname, '..', '..', 'examples');

function bundle(name: string): BundleFiles {
  const files = readTree(join(examples, name, 'out'));
  if (!(files instanceof Map)) throw new Error(`examples/${name} is not a bundle`);
  return files;
}

const [old, fresh] = [bundle('02-node-port'), bundle('03-load-balancer')];

function reportOf(): ChangeReport {
  const report = reportOn({ old, updated: fresh });
  return report;
}

/** A report with the changes of the real one, repeated. */
function large(times: number): ChangeReport {
  const report = reportOf();
  const repeat = <T>(list: readonly T[]): readonly T[] => Array.from({ length: times }, () => list).flat();
  return {
    ...report,
    diff: { ...report.diff, services: repeat(report.diff.services), flows: repeat(report.diff.flows) },
  };
}

const size = diffSize(old, fresh);
const comment: MarkdownOptions = { charactersMax: commentCharactersMax, size };

test('a comment that fits is complete, and starts with the mark of its updates', () => {
  const text = reportMarkdown(reportOf(), comment);
  expect(text.startsWith(`${commentMark}\n### Sluice: 2 Services added`)).toBe(true);
  expect(text).not.toContain('Truncated:');
  expect(text.match(/^\| (?:opens|moves|\*\*closes\*\*) \|/gm)).toHaveLength(reportOf().diff.flows.length);
  expect(text).toBe(reportMarkdown(reportOf(), { size }));
});

test.each([1, 7, 60, 1_000])(
  'a comment on %i times the changes stays below its limit and counts what is left out',
  (times) => {
    const report = large(times);
    const text = reportMarkdown(report, { ...comment, reportUrl: 'https://ci.example/report' });
    expect(text.length).toBeLessThan(60_000);
    const rows = text.match(/^\| (?:opens|moves|\*\*closes\*\*) \|/gm)?.length ?? 0;
    const cut = Number(/Truncated:.*?(\d+) flows/.exec(text)?.[1] ?? 0);
    expect(rows + cut).toBe(report.diff.flows.length);
    expect(text.includes('[The full report](<https://ci.example/report>) shows all.')).toBe(cut > 0);
    // Each opened part is closed, too, however much of it is left out.
    expect(text.match(/<details>/g)?.length).toBe(text.match(/<\/details>/g)?.length);
  },
);

test('the URL of the report cannot end its link', () => {
  const text = reportMarkdown(reportOf(), { ...comment, reportUrl: 'https://ci.example/a b>[x](y' });
  expect(text).toContain('](<https://ci.example/a%20b%3E[x](y>)');
});

test.each([
  [{ files: 300, lines: 20_000, bytes: 1_000_000 }, 'the whole difference'],
  [{ files: 301, lines: 10, bytes: 10 }, 'about 99 %'],
  [{ files: 10, lines: 40_000, bytes: 10 }, 'about 50 %'],
  [{ files: 600, lines: 80_000, bytes: 4_000_000 }, 'about 25 %'],
])('for %j the web page shows %s', (measured, expected) => {
  expect(webText(measured)).toContain(expected);
});

test('the size of a difference counts the files that differ', () => {
  const paths = new Set([...old.keys(), ...fresh.keys()]);
  expect(size.files).toBe([...paths].filter((path) => old.get(path) !== fresh.get(path)).length);
  expect(diffSize(old, old)).toEqual({ files: 0, lines: 0, bytes: 0 });
});
