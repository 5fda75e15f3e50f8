// @module-tag test
import { createHash } from 'node:crypto';
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { execa } from 'execa';
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import { parse } from 'yaml';
import { Repository, sluice } from './repository.ts';

/** What the action and the job take of a release: the archive of a version, by its digest. */

const integrations = join(import.meta.dirname, '../../integrations');
const read = (path: string): unknown => parse(readFileSync(join(integrations, path), 'utf8'));
const version = '0.2.0';
const reviewMs = 120_000;

let repository: Repository;
let home: string;
beforeEach(async () => {
  repository = await Repository.create();
  home = join(dirname(repository.dir), 'release');
}, reviewMs);
afterEach(() => repository.remove());

/** An archive as a release has it, with the program of this run, on a server. @returns its variables */
async function serveRelease(): Promise<Readonly<Record<string, string>>> {
  const { stdout: machine } = await execa('uname', ['-m']);
  const name = `sluice-cli-${version}-linux-${machine === 'aarch64' ? 'arm64' : 'x64'}`;
  const folder = join(dirname(repository.dir), name);
  mkdirSync(join(folder, 'bin'), { recursive: true });
  writeFileSync(join(folder, 'bin/sluice'), `#!/bin/sh\nexec ${sluice} "$@"\n`);
  chmodSync(join(folder, 'bin/sluice'), 0o755);
  cpSync(integrations, join(folder, 'integrations'), { recursive: true });
  await execa('tar', ['-czf', `${folder}.tar.gz`, '-C', dirname(folder), name]);
  const bytes = readFileSync(`${folder}.tar.gz`);
  rmSync(folder, { recursive: true });
  const server = createServer(({ url }, response) => {
    if (url === `/v${version}/${name}.tar.gz`) response.end(bytes);
    else response.writeHead(404).end();
  });
  await new Promise<void>((listening) => void server.listen(0, '127.0.0.1', listening));
  onTestFinished(() => void server.close());
  return {
    SLUICE_VERSION: version,
    SLUICE_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v${version}`,
    SLUICE_SHA256: createHash('sha256').update(bytes).digest('hex'),
  };
}

const shell = (script: string, env: Readonly<Record<string, string>>) =>
  execa('/bin/sh', ['-e'], { input: script, cwd: repository.dir, env, reject: false, all: true });

async function proposeChange(): Promise<void> {
  await repository.change();
  await repository.render();
  await repository.commit('shop: search, and a node port for web');
}

const action = read('github/action.yml') as {
  readonly runs: { readonly steps: readonly { readonly name: string; readonly run?: string }[] };
};
const step = (name: string): string => action.runs.steps.find((one) => one.name === name)?.run ?? '';

test('the action on GitHub reviews a change with a released version', { timeout: reviewMs }, async () => {
  await proposeChange();
  const env = {
    ...(await serveRelease()),
    SLUICE_HOME: home,
    GITHUB_ACTION_PATH: join(integrations, 'github'),
    GITHUB_OUTPUT: join(dirname(repository.dir), 'output'),
    GITHUB_STEP_SUMMARY: join(dirname(repository.dir), 'summary'),
  };
  const setUp = await shell(step('Set up sluice'), env);
  expect({ exit: setUp.exitCode, all: setUp.all }).toMatchObject({ exit: 0 });
  const out = join(dirname(repository.dir), 'review');
  const variables = { SLUICE_BASE: 'origin/main', SLUICE_TODAY: '2026-11-21', SLUICE_OUT: out };
  await shell(step('Review'), { ...env, ...variables, SLUICE: join(home, 'bin/sluice') });
  expect(readFileSync(env.GITHUB_OUTPUT, 'utf8')).toBe(`directory=${out}\ncode=0\n`);
  expect(readFileSync(env.GITHUB_STEP_SUMMARY, 'utf8')).toContain('Gates: render good, policy good');
});

const template = read('gitlab/sluice.gitlab-ci.yml') as {
  readonly 'sluice review': { readonly before_script: readonly string[]; readonly script: readonly string[] };
};

test('the job on GitLab reviews a change with a released version alone', { timeout: reviewMs }, async () => {
  await proposeChange();
  const { before_script, script } = template['sluice review'];
  const ran = await shell([...before_script, ...script].join('\n'), {
    ...(await serveRelease()),
    CI_PROJECT_DIR: repository.dir,
    CI_MERGE_REQUEST_TARGET_BRANCH_NAME: 'main',
    SLUICE_BASE: 'origin/main',
    SLUICE_TODAY: '2026-11-21',
    SLUICE_OUT: 'sluice-review',
  });
  expect({ exit: ran.exitCode, all: ran.all }).toMatchObject({ exit: 0 });
  expect(readFileSync(join(repository.dir, 'sluice-review/comment.md'), 'utf8')).toContain('opens to the outside');
});

test.for([
  ['GitHub', step('Set up sluice')],
  ['GitLab', template['sluice review'].before_script.join('\n')],
] as const)('%s: an archive with another digest is not unpacked', async ([, script]) => {
  const variables = { ...(await serveRelease()), SLUICE_HOME: home, CI_PROJECT_DIR: repository.dir };
  const refused = await shell(script, { ...variables, SLUICE_SHA256: '0'.repeat(64) });
  expect(refused).toMatchObject({ exitCode: 1, all: expect.stringContaining('FAILED') as string });
  for (const folder of [home, `${repository.dir}.sluice`]) expect(existsSync(join(folder, 'bin'))).toBe(false);
  const unnamed = await shell(script, { ...variables, SLUICE_SHA256: '' });
  expect(unnamed.exitCode).not.toBe(0);
  expect(unnamed.all).toMatch(/the digest of the archive in SHA256SUMS/);
});
