// @module-tag test
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { sampleBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { Fetcher } from '../../packages/applier/src/testing/fetch.fixture.ts';
import { FakeRegistry } from '../registry/fake.fixture.ts';
import { StaticServer } from '../registry/static.fixture.ts';
import { GitHttpServer } from '../servers/git-http.ts';
import type { Instead } from '../servers/loopback.ts';
import { commitTo, pushTo, writeLayout } from './publish.fixture.ts';
import { sourceScene } from './scene.fixture.ts';

/** Servers that stall, drip, lie, redirect or never end: the placed release stays, and the next attempt at a good server follows it. */

const { scene, at, closed } = sourceScene();
const { publish, directory: release } = scene;

const changed = sampleBundle({ services: { 'shop/web': [7] } });
const bytesMax = 4 * 1024 * 1024;
const bounds = { secondsMax: 2, bytesMax };

const send = (response: ServerResponse, next: () => Buffer | undefined, pauseMs: number): void => {
  const chunk = next();
  if (chunk === undefined || response.destroyed) return void response.end();
  response.write(chunk);
  setTimeout(() => send(response, next, pauseMs), pauseMs);
};

const misdeeds: readonly (readonly [string, Instead, RegExp])[] = [
  ['never answers', () => true, /it took longer than 2 s/],
  [
    'drips a byte at a time',
    (_request, response) => (response.writeHead(200), send(response, () => Buffer.from(' '), 100), true),
    /it took longer than 2 s/,
  ],
  [
    'never ends',
    (_request, response) => (response.writeHead(200), send(response, () => Buffer.alloc(65_536, ' '), 0), true),
    /larger than \d+ bytes|more than \d+ bytes|it took longer/,
  ],
  [
    'announces a body without end',
    (_request, response) => (response.writeHead(200, { 'content-length': 1e15 }), response.write('x'), true),
    /larger than|more than|took longer/,
  ],
  [
    'redirects to a file',
    (_request, response) => (response.writeHead(302, { location: 'file:///etc/passwd' }).end(), true),
    /it is not a permitted URL/,
  ],
  [
    'redirects to the metadata of a cloud',
    (_request, response) => (response.writeHead(302, { location: 'http://169.254.169.254/' }).end(), true),
    /not a permitted URL|it leads to 169/,
  ],
  [
    'redirects in a circle',
    (request, response) => (response.writeHead(302, { location: request.url ?? '/' }).end(), true),
    /redirect loop/,
  ],
  ['resets connections', (request) => (request.socket.destroy(), true), /REGISTRY_UNREACHABLE/],
  ['answers 500', (_request, response) => (response.writeHead(500).end('no'), true), /answered 500/],
  ['answers with a page', (_request, response) => (response.writeHead(200).end('<html>'), true), /not a JSON|digest/],
];

describe.each(['oci', 'https'])('after release 5, a source of kind %s that', (name) => {
  test.each(misdeeds)(
    '%s changes nothing',
    async (_title, misdeed, says) => {
      let instead: Instead | undefined;
      const registry = closed(
        await FakeRegistry.open({
          referrers: true,
          instead: (request, response) => instead?.(request, response) === true,
        }),
      );
      const web = closed(await StaticServer.open(at('www')));
      web.instead = (request, response) => instead?.(request, response) === true;
      const reference = `${registry.host}/shop:1`;
      const put = async (): Promise<void> => {
        await pushTo(reference, release, '1');
        writeLayout(at('www'), release, 'latest');
      };
      const source = name === 'oci' ? { oci: { reference } } : { https: { url: web.url } };
      const fetcher = new Fetcher(scene, { ...source, ...bounds });
      publish({ serial: 5 });
      await put();
      expect(await fetcher.said()).toMatch(/^placed 5/);
      const before = fetcher.inodes();
      publish({ serial: 6, files: changed });
      await put();
      instead = misdeed;
      expect(await fetcher.said()).toMatch(says);
      expect(fetcher.inodes()).toEqual(before);
      expect(await fetcher.taken()).toBe('serial 5');
      instead = undefined;
      expect(await fetcher.said()).toMatch(/^placed 6/);
    },
    30_000,
  );

  test('lies about a blob changes nothing', async () => {
    const registry = closed(await FakeRegistry.open({ referrers: true }));
    const reference = `${registry.host}/shop:1`;
    const source =
      name === 'oci' ? { oci: { reference } } : { https: { url: closed(await StaticServer.open(at('www'))).url } };
    const fetcher = new Fetcher(scene, { ...source, ...bounds });
    publish({ serial: 5 });
    await pushTo(reference, release, '1');
    writeLayout(at('www'), release, 'latest');
    for (const [digest, bytes] of registry.blobs) registry.blobs.set(digest, Buffer.from(bytes).fill(0, 1, 2));
    const blobs = at('www/blobs/sha256');
    for (const one of readdirSync(blobs))
      writeFileSync(join(blobs, one), Buffer.alloc(statSync(join(blobs, one)).size, 1));
    expect(await fetcher.said()).toMatch(/^failed REGISTRY_INVALID .*do not match the digest/);
    expect(await fetcher.taken()).toBe('absent');
    expect(readdirSync(join(fetcher.directory)).filter((one) => one === 'staged')).toEqual([]);
  });
});

describe('git', () => {
  const fetcherOf = (url: string): Fetcher =>
    new Fetcher(scene, { git: { url, path: 'out' }, ...bounds, secondsMax: 5 });

  test.each<readonly [string, Instead, RegExp]>([
    ['never answers', () => true, /it took too long/],
    ['resets connections', (request) => (request.socket.destroy(), true), /^failed SOURCE_UNREACHABLE/],
    [
      'redirects to another server',
      (request, response) => (response.writeHead(302, { location: `http://127.0.0.1:1${request.url}` }).end(), true),
      /^failed SOURCE_/,
    ],
    ['answers with a page', (_request, response) => (response.writeHead(200).end('<html>'), true), /^failed SOURCE_/],
    [
      'asks for a password',
      (_request, response) => (response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end(), true),
      /^failed SOURCE_ACCESS/,
    ],
    [
      'sends packs that are none',
      (request, response) => request.method === 'POST' && (response.writeHead(200).end('0008NAK\nPACKxxxx'), true),
      /^failed SOURCE_/,
    ],
  ])(
    'a server that %s changes nothing',
    async (_title, misdeed, says) => {
      const server = closed(await GitHttpServer.open(at('git')));
      publish({ serial: 5 });
      commitTo(at('git/shop'), release, 'out');
      const fetcher = fetcherOf(`${server.url}/shop/.git`);
      expect(await fetcher.said()).toMatch(/^placed 5/);
      publish({ serial: 6, files: changed });
      commitTo(at('git/shop'), release, 'out');
      server.instead = misdeed;
      expect(await fetcher.said()).toMatch(says);
      expect(await fetcher.taken()).toBe('serial 5');
      server.instead = undefined;
      expect(await fetcher.said()).toMatch(/^placed 6/);
    },
    60_000,
  );

  test('a commit that is larger than the bound is not kept', async () => {
    const server = closed(await GitHttpServer.open(at('git')));
    publish({ serial: 5 });
    commitTo(at('git/shop'), release, 'out');
    writeFileSync(
      at('git/shop/big'),
      execFileSync('/usr/bin/head', ['-c', String(2 * bytesMax), '/dev/urandom'], { maxBuffer: 4 * bytesMax }),
    );
    execFileSync('/usr/bin/git', ['-C', at('git/shop'), '-c', 'user.name=a', '-c', 'user.email=a@b', 'add', '-A']);
    execFileSync('/usr/bin/git', [
      '-C',
      at('git/shop'),
      '-c',
      'user.name=a',
      '-c',
      'user.email=a@b',
      'commit',
      '-qm',
      'x',
    ]);
    const fetcher = fetcherOf(`${server.url}/shop/.git`);
    expect(await fetcher.said()).toMatch(/^failed SOURCE_INVALID/);
    expect(existsSync(join(fetcher.directory, 'git'))).toBe(false);
  }, 60_000);

  test('links, and files that no bundle has, are refused', async () => {
    const server = closed(await GitHttpServer.open(at('git')));
    publish({ serial: 5 });
    commitTo(at('git/shop'), release, 'out');
    const git = (...args: readonly string[]): void =>
      void execFileSync('/usr/bin/git', ['-C', at('git/shop'), '-c', 'user.name=a', '-c', 'user.email=a@b', ...args]);
    execFileSync('/bin/ln', ['-sf', '/etc/passwd', at('git/shop/out/waves.yaml')]);
    git('add', '-A');
    git('commit', '-qm', 'link');
    const fetcher = fetcherOf(`${server.url}/shop/.git`);
    expect(await fetcher.said()).toMatch(/^failed SOURCE_INVALID .*not a regular file/);
    expect(await fetcher.taken()).toBe('absent');
  }, 60_000);

  test('what the repository names is not started', async () => {
    const server = closed(await GitHttpServer.open(at('git')));
    publish({ serial: 5 });
    commitTo(at('git/shop'), release, 'out');
    const fetcher = fetcherOf(`${server.url}/shop/.git`);
    await fetcher.said();
    const config = join(fetcher.directory, 'git/.git/config');
    writeFileSync(config, `[core]\n\tfsmonitor = touch ${at('started')}\n\thooksPath = ${at('')}\n`, { flag: 'a' });
    publish({ serial: 6, files: changed });
    commitTo(at('git/shop'), release, 'out');
    expect(await fetcher.said()).toMatch(/^placed 6/);
    expect(existsSync(at('started'))).toBe(false);
  }, 60_000);
});
