import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { version as checkout } from '../packages/cli/src/version.ts';
import { buildVersion, orderedVersion, tagVersion, versionOf } from './version.ts';

const next = checkout.replace('-dev', '');
let root: string;
const git = (...argv: readonly string[]): string =>
  execFileSync('git', ['-C', root, '-c', 'user.name=a', '-c', 'user.email=a@example.com', ...argv], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });

beforeEach(() => {
  vi.stubEnv('SLUICE_VERSION', undefined);
  root = mkdtempSync(join(tmpdir(), 'sluice-version-'));
  git('init', '-q');
  for (const text of ['1', '2']) {
    writeFileSync(join(root, 'file'), text);
    git('add', 'file');
    git('commit', '-qm', text);
  }
});
afterEach(() => rmSync(root, { recursive: true }));

test('counts commits since the last tag, and names the commit', () => {
  const hash = git('rev-parse', '--short=7', 'HEAD').trim();
  expect(buildVersion(root)).toBe(`${next}-dev.2+g${hash}`);
  git('tag', 'v0.1.0', 'HEAD~1');
  git('tag', 'other');
  expect(buildVersion(root)).toBe(`${next}-dev.1+g${hash}`);
  writeFileSync(join(root, 'file'), '3');
  expect(buildVersion(root)).toBe(`${next}-dev.1+g${hash}.dirty`);
});

test('is the version of a tag, and refuses one that the programs do not have', () => {
  git('tag', `v${next}`);
  expect(buildVersion(root)).toBe(next);
  git('tag', '-d', `v${next}`);
  git('tag', 'v9.9.9');
  expect(() => buildVersion(root)).toThrow('Cannot build the tag v9.9.9');
});

test('refuses a shallow clone, whose count would be wrong', () => {
  const clone = join(root, 'clone');
  execFileSync('git', ['clone', '-q', '--depth=1', `file://${root}`, clone]);
  expect(() => buildVersion(clone)).toThrow('the clone is shallow');
});

test('takes a given version of the same form alone', () => {
  for (const given of ['1.2.3', '1.2.3-dev.4+g0123456', '1.2.3-dev.4+g0123456.dirty']) {
    vi.stubEnv('SLUICE_VERSION', given);
    expect(buildVersion('/nowhere')).toBe(given);
  }
  for (const given of ['', '1.2', 'v1.2.3', '1.2.3-rc1', '1.2.3 ; rm', '1.2.3-dev.4']) {
    vi.stubEnv('SLUICE_VERSION', given);
    expect(() => buildVersion('/nowhere')).toThrow(`Cannot build version "${given}"`);
  }
});

test('dpkg orders versions as they were made', () => {
  const commit = { tags: [], hash: '0123456', isDirty: false };
  const made = [9, 10].map((commits) => orderedVersion(versionOf({ ...commit, commits }, '0.2.0')));
  const ordered = ['0.1.0', ...made, '0.2.0', '0.2.1'];
  for (const [at, one] of ordered.slice(1).entries())
    execFileSync('dpkg', ['--compare-versions', ordered[at] as string, 'lt', one]);
  expect(ordered[2]).toBe('0.2.0~dev.10+g0123456');
});

test('a tag of an image has no character that registries refuse', () => {
  expect(tagVersion('0.2.0-dev.10+g0123456')).toMatch(/^[\w.-]{1,128}$/);
});
