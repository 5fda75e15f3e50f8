import { readFileSync } from 'node:fs';
import { bundleFormats, releaseFeatures } from '@sluice/bundle';
import { version, versionLine, versionReport } from '@sluice/cli';
import { expect, test } from 'vitest';
import { buildProgram } from './program.ts';

test.each(['../package.json', '../../../package.json'])('the version is the one of %s', (path) => {
  const { version: stated } = JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8')) as { version: string };
  expect(version).toBe(stated);
});

test('starts the text with the name and the version', () => {
  const report = versionReport({ bundleFormats, releaseFeatures });
  const line = versionLine('sluiced', { ...report, platform: 'linux', arch: 'arm64', node: '26.10.0' });
  expect(line).toBe(`sluiced ${version} (linux arm64, Node 26.10.0, bundle format 1)\n`);
});

async function runVersion(...more: readonly string[]): Promise<string> {
  let said = '';
  const terminal = { out: (text: string) => void (said += text), err() {} };
  const finish = async (work: () => Promise<number>): Promise<void> => {
    expect(await work()).toBe(0);
  };
  await buildProgram({ terminal, finish, environment: {}, runDaemon: async () => 0 }).parseAsync([
    'node',
    'sluiced',
    'version',
    ...more,
  ]);
  return said;
}

test('sluiced version -o json has the supported formats, and no time', async () => {
  expect(JSON.parse(await runVersion('-o', 'json'))).toEqual({
    apiVersion: 'sluice.dev/v1alpha1',
    kind: 'Version',
    version,
    bundleFormats,
    releaseFeatures,
    node: process.versions.node,
    platform: process.platform,
    arch: process.arch,
  });
});

test('sluiced version prints one line of text', async () => {
  expect(await runVersion()).toMatch(/^sluiced \d+\.\d+\.\d+-dev \(.*\)\n$/);
});
