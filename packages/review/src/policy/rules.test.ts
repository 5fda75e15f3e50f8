import { expect, test } from 'vitest';
import { reviewedInput } from '../commands/policy/policy.ts';
import { load } from '@sluice/renderer/load/load.ts';
import { casesOfBundles } from './cases-of-bundles.fixture.ts';
import { casesOfChanges } from './cases-of-changes.fixture.ts';
import { policyCodes } from './catalogue.ts';
import { checkPolicy } from './policy.ts';

const cases = [...casesOfBundles, ...casesOfChanges];

test.each(cases.map(([code, title, input, fires]) => ({ code, title, input, fires })))(
  '$code: $title: $fires',
  ({ code, input, fires }) => {
    const { files, base, settings = {}, input: manifests } = input();
    const objects = manifests === undefined ? undefined : load([{ file: 'in.yaml', text: manifests }]).objects;
    const reviewed = objects && { input: reviewedInput(objects) };
    const result = checkPolicy({ files, ...(base ? { base } : {}), ...reviewed, settings, today: '2026-11-21' });
    const found = result.findings.filter((finding) => finding.code === code);
    expect(found.length > 0).toBe(fires);
    const textOf = (path: string): string => (path === 'in.yaml' ? manifests : files.get(path)) ?? '';
    for (const { path, line } of found) expect(textOf(path).split('\n').length).toBeGreaterThanOrEqual(line);
  },
);

test.each([true, false])('every rule has a case with this result: %s', (speaks) => {
  const shown = new Set(cases.flatMap(([code, , , fires]) => (fires === speaks ? [code] : [])));
  expect(policyCodes.filter((code) => !shown.has(code))).toEqual([]);
});
