// @module-tag quick
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { namedOf, readDifferences } from './conformance/differences.ts';
import { conformanceTables, junitOf, lastRuns, type SystemRun } from './conformance/runs.ts';

/** docs/conformance.md has the last runs that `test/conformance` wrote down. UPDATE_DOCS=1 rewrites its tables. */

const page = join(import.meta.dirname, '..', 'docs', 'conformance.md');
const start = '<!-- written by the tests -->\n';
const [runs, named] = [lastRuns(), readDifferences()];
const verdicts = runs.flatMap((run) =>
  Object.entries(run.verdicts).map(([title, verdict]) => ({ system: run.system, title, verdict })),
);

test('docs/conformance.md has the last runs', () => {
  const [before = ''] = readFileSync(page, 'utf8').split(start);
  const wanted = `${before}${start}\n${conformanceTables(runs, named)}`;
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(page, wanted);
  expect(readFileSync(page, 'utf8')).toBe(wanted);
});

describe('differences.yaml', () => {
  test('names each test that did not pass, and none that passed', () => {
    const wrong = verdicts.filter(
      ({ system, title, verdict }) => verdict !== (namedOf(system, title, named)?.verdict ?? 'passed'),
    );
    expect(wrong).toEqual([]);
  });

  test('has no entry for a test or a system that was not run', () => {
    const systems = new Set(runs.map(({ system }) => system));
    const unused = named.filter(
      ({ test: title, systems: own = [] }) =>
        !verdicts.some((one) => one.title.startsWith(title)) || own.some((system) => !systems.has(system)),
    );
    expect(unused).toEqual([]);
  });

  test('gives a reason for each', () => {
    expect(named.filter(({ reason }) => reason.trim().length < 20)).toEqual([]);
  });
});

test('every system was given over a hundred tests, or each one with the label Conformance', () => {
  expect(runs.length).toBeGreaterThan(4);
  const titles = new Set(verdicts.map(({ title }) => title));
  const labelled = [...titles].filter((title) => title.includes('[Conformance]'));
  expect(labelled.length).toBeGreaterThan(20);
  const isIncomplete = ({ judgedBy, verdicts: own }: SystemRun): boolean =>
    judgedBy === 'label' ? labelled.some((title) => !(title in own)) : Object.keys(own).length <= 100;
  expect(runs.filter(isIncomplete).map(({ system }) => system)).toEqual([]);
});

test('JUnit has the reason of a named difference, and the message of another one', () => {
  const [system, title] = ['Sluice, mode nftables', named[0]!.test];
  const xml = junitOf(
    { system, verdicts: { [title]: 'skipped', a: 'passed', b: 'failed' } },
    new Map([['b', 'no <answer>']]),
  );
  expect(xml).toContain('tests="3" failures="1" errors="0" skipped="1"');
  expect(xml).toContain(`<skipped message="${named[0]!.reason}"/>`);
  expect(xml).toContain('message="no &lt;answer&gt;"');
});
