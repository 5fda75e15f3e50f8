// @module-tag test
import { describe, expect, test } from 'vitest';
import { kubeProxyVersions, type KubeProxyVersion } from '../packages/renderer/src/render/model/version.ts';
import { answersOf, type Input } from './matrix/cluster.ts';
import { type Column, columns } from './matrix/columns.ts';
import { fieldRows } from './matrix/fields.ts';
import { differenceBy, followedDifferences, versionRows } from './matrix/versions.ts';

/** The column of versions of docs/matrix.md: which fields rules read otherwise as kube-proxy of another version does. */

const [oldest, newest] = [kubeProxyVersions[0], kubeProxyVersions.at(-1)!];
const rowMs = 60_000;

/** What a field shows in a column with a version, set and unset. */
function shown(field: string, column: Column, kubeProxyVersion: KubeProxyVersion): readonly string[] {
  const { given = {}, unset = {}, set, checks } = fieldRows.find((row) => row.field === field)!;
  const own = versionRows.find((row) => row.field === field)?.shown;
  const inputs: readonly (readonly Input[])[] = own
    ? [[own.input]]
    : [
        [given, set],
        [given, unset],
      ];
  return inputs.flatMap((parts) => {
    const answer = answersOf(parts, { ...column, kubeProxyVersion });
    return (own ? [own.ask] : checks.map(({ ask }) => ask)).map(answer);
  });
}

const differs = (field: string, one: KubeProxyVersion, other: KubeProxyVersion): boolean =>
  columns.some((column) => shown(field, column, one).join('\n') !== shown(field, column, other).join('\n'));

test('every difference that rules follow is told of a field', () => {
  expect([...new Set(versionRows.map(({ by }) => by))].toSorted()).toEqual(
    followedDifferences.map(({ by }) => by).toSorted(),
  );
});

test.each(versionRows)(
  '$field changes with a version, and no version before or after it changes it',
  { timeout: rowMs },
  ({ field, by }) => {
    const { since } = differenceBy(by);
    const before = kubeProxyVersions[kubeProxyVersions.indexOf(since) - 1]!;
    expect(differs(field, before, since)).toBe(true);
    expect(differs(field, oldest, before)).toBe(false);
    expect(differs(field, since, newest)).toBe(false);
  },
);

describe('no other field is read otherwise', () => {
  const others = fieldRows.filter(
    ({ field, checks }) => checks.length > 0 && !versionRows.some((row) => row.field === field),
  );
  test.each(others)('$field', { timeout: rowMs }, ({ field }) => {
    expect(differs(field, oldest, newest)).toBe(false);
  });
});
