// @module-tag test
import { execFileSync } from 'node:child_process';
import { appendFileSync, cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeKey, programPath } from '@sluice/testing';
import { execa } from 'execa';
import { afterEach, expect, test, type TestContext } from 'vitest';
import { releaseScratch } from '../../packages/delivery/src/commands/release/scratch.fixture.ts';
import { sluice } from '../../packages/sluice/src/in-process.fixture.ts';
import { until } from '../netns/until.ts';
import { DebianRegistry } from '../registry/debian.fixture.ts';
import { GitHttpServer } from './git-http.ts';
import { cacheOf, startNginx, staticFiles } from './nginx.ts';
import { startS3 } from './s3.ts';
import { startSshd } from './sshd.ts';

/** `sluiced fetch` from the servers that sites have: a release, the next one with one changed Service, and nothing new. */

const { scratch, bundle, release, signers, make, sign } = releaseScratch();
const at = (name: string): string => join(scratch, name);
const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const one of open.splice(0)) await one.close();
});
function closing<T extends { close(): unknown }>(one: T): T {
  open.push(one);
  return one;
}

/** Where a release is published, and how a node's config names it. */
interface Site {
  readonly source: string;
  publish(): Promise<void> | void;
}

async function registry(context: TestContext): Promise<DebianRegistry> {
  const one = await DebianRegistry.open();
  if (typeof one === 'string') context.skip(one);
  return closing(one);
}

async function pushTo(reference: string): Promise<void> {
  expect((await sluice('push', release, reference)).stderr).not.toContain('error');
}

/** A repository into which each release is committed. */
function repositories(url: (folder: string) => string): {
  readonly folder: string;
  readonly publish: () => Promise<void>;
} {
  // sshd lets another user in, who must be able to reach it.
  const folder = mkdtempSync('/tmp/sluice-repositories-');
  closing({ close: () => rmSync(folder, { recursive: true }) });
  execFileSync('chmod', ['755', folder]);
  execFileSync('git', ['init', '-q', '--bare', '-b', 'main', join(folder, 'shop.git')]);
  execFileSync('git', ['-C', join(folder, 'shop.git'), 'config', 'http.receivepack', 'true']);
  const work = at(`work-${folder.slice(-6)}`);
  execFileSync('git', ['init', '-q', '-b', 'main', work]);
  // Not synchronously: the server over HTTP is in this process.
  const git = (...args: readonly string[]): PromiseLike<unknown> =>
    execa('git', ['-C', work, '-c', 'user.name=a', '-c', 'user.email=a@example.com', ...args], {
      env: sshEnv(),
      timeout: 20_000,
    });
  return {
    folder,
    publish: async () => {
      rmSync(join(work, 'rendered'), { recursive: true, force: true });
      cpSync(release, join(work, 'rendered'), { recursive: true });
      await git('add', '-A');
      await git('commit', '-q', '-m', 'release');
      await git('push', '-q', url(folder), 'main');
    },
  };
}
const sshEnv = (): Record<string, string> => ({
  GIT_SSH_COMMAND: `ssh -F none -i ${at('git_key')} -o UserKnownHostsFile=${at('known_hosts')}`,
});

/** The release as an image layout, static files. @param upload called with paths below it, in the order of their upload */
async function writeLayout(upload: (path: string) => Promise<void> = async () => {}): Promise<void> {
  expect(await sluice('push', release, `oci:${at('layout')}:production`)).toMatchObject({ status: 0 });
  const paths = execFileSync('find', ['.', '-type', 'f', '-printf', '%P\n'], { cwd: at('layout'), encoding: 'utf8' });
  // A reader finds what index.json names.
  for (const path of paths
    .trim()
    .split('\n')
    .toSorted((a, b) => Number(a === 'index.json') - Number(b === 'index.json')))
    await upload(path);
}

const sites: Readonly<Record<string, (context: TestContext) => Promise<Site>>> = {
  "Debian's docker-registry": async (context) => {
    const reference = `${(await registry(context)).host}/sluice/shop:production`;
    return { source: `oci: { reference: "${reference}" }`, publish: () => pushTo(reference) };
  },
  'nginx as a cache of that registry': async (context) => {
    const { host } = await registry(context);
    const nginx = closing(await startNginx(context, { directives: cacheOf(`http://${host}`) }));
    return {
      source: `oci: { reference: "127.0.0.1:${nginx.port}/sluice/shop:production" }`,
      publish: () => pushTo(`${host}/sluice/shop:production`),
    };
  },
  'nginx with static files': async (context) => {
    mkdirSync(at('layout'), { recursive: true });
    const nginx = closing(await startNginx(context, { directives: staticFiles(at('layout')) }));
    return {
      source: `https: { url: "http://127.0.0.1:${nginx.port}", tag: production }`,
      publish: () => writeLayout(),
    };
  },
  'an S3 server': async (context) => {
    const url = `http://127.0.0.1:${closing(await startS3(context, 'rules')).port}/rules/shop`;
    const upload = async (path: string): Promise<void> => {
      const body = readFileSync(join(at('layout'), path));
      expect((await fetch(`${url}/${path}`, { method: 'PUT', body })).status).toBe(200);
    };
    return { source: `https: { url: "${url}", tag: production }`, publish: () => writeLayout(upload) };
  },
  'git http-backend': async () => {
    let port = 0;
    const { folder, publish } = repositories(() => `http://127.0.0.1:${port}/shop.git`);
    ({ port } = closing(await GitHttpServer.open(folder)));
    return { source: `git: { url: "http://127.0.0.1:${port}/shop.git", path: rendered }`, publish };
  },
  'sshd with git-shell': async (context) => {
    makeKey(at('git_key'));
    closing({ close: () => ['git_key', 'git_key.pub'].forEach((name) => rmSync(at(name))) });
    let port = 0;
    const url = (folder: string): string => `ssh://git@127.0.0.1:${port}${folder}/shop.git`;
    const { folder, publish } = repositories(url);
    const { server, knownHost } = await startSshd(context, readFileSync(at('git_key.pub'), 'utf8'), folder);
    ({ port } = closing(server));
    writeFileSync(at('known_hosts'), `${knownHost}\n`);
    const git = `git: { url: "${url(folder)}", path: rendered, knownHosts: ${at('known_hosts')} }`;
    return { source: `${git}\n  credentials: { file: ${at('git_key')} }`, publish };
  },
};

/** Fetches once. @returns the document that the command prints */
async function fetchOnce(source: string, directory: string): Promise<{ readonly outcome?: string }> {
  const config = `apiVersion: sluice.dev/v1alpha1
kind: SluicedConfig
node: node-1
signatures: { allowedSigners: ${signers} }
source:
  ${source}
  directory: ${directory}
`;
  writeFileSync(at('sluiced.yaml'), config);
  const args = ['fetch', '--once', '-o', 'json', '-c', at('sluiced.yaml')];
  const { stdout, stderr } = await execa(programPath('sluiced'), args, { reject: false, timeout: 30_000 });
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout) as { readonly outcome?: string };
}

test.for(Object.keys(sites))('a node fetches each release from %s', { timeout: 120_000 }, async (name, context) => {
  const site = await sites[name]?.(context);
  if (site === undefined) throw new Error(`${name} is no site`);
  const directory = mkdtempSync(at('fetched-'));
  for (const serial of [1, 2]) {
    if (serial > 1) appendFileSync(join(bundle, 'cluster.yaml'), '# a note\n');
    await make();
    await sign('alice');
    await site.publish();
    // A cache may have the tag of before for a second.
    await until(`release ${serial} is placed`, async () => {
      const { outcome } = await fetchOnce(site.source, directory);
      return outcome !== 'same';
    });
    expect(await fetchOnce(site.source, directory)).toMatchObject({ outcome: 'same', serial });
    const placed = (path: string): string => readFileSync(join(directory, 'release', path), 'utf8');
    for (const path of ['release.yaml', 'SHA256SUMS', 'nodes/node-1/node.yaml'])
      expect(placed(path)).toBe(readFileSync(join(release, path), 'utf8'));
  }
});
