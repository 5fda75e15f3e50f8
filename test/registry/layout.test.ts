// @module-tag test
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileDigest } from '@sluice/bundle';
import { atTier, programPath, randomOf, seed } from '@sluice/testing';
import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { BlobCache } from '../../packages/transport/src/content/cache.ts';
import { directoryReader, layoutContent, webReader } from '../../packages/transport/src/content/layout.ts';
import { pullRelease } from '../../packages/transport/src/content/pull.ts';
import type { HttpOptions } from '../../packages/transport/src/http/client.ts';
import { WebClient } from '../../packages/transport/src/http/web.ts';
import { sluice } from '../../packages/sluice/src/in-process.fixture.ts';
import { makeAuthority } from '../cluster/certificates.fixture.ts';
import { makeSampleRelease, signatureOf } from './release.fixture.ts';
import type { LoopbackNature } from '../servers/loopback.ts';
import { StaticServer } from './static.fixture.ts';

/** Image layouts: what a push leaves in one, and what a reader finds at any moment, also behind a web server. */

const scratch = mkdtempSync(join(tmpdir(), 'sluice-layout-'));
const at = (name: string): string => join(scratch, name);
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const servers: StaticServer[] = [];
beforeEach(() => {
  for (const name of readdirSync(scratch)) rmSync(at(name), { recursive: true });
  mkdirSync(at('layout'));
});
afterEach(() => {
  for (const server of servers.splice(0)) server.close();
});

interface Entry {
  readonly digest: string;
  readonly artifactType?: string;
  readonly annotations?: Readonly<Record<string, string>>;
}
const entries = (): readonly Entry[] =>
  (JSON.parse(readFileSync(at('layout/index.json'), 'utf8')) as { manifests: Entry[] }).manifests;
const blobs = (): readonly string[] => readdirSync(at('layout/blobs/sha256'));
const content = layoutContent('layout', directoryReader(at('layout')));
const serial = async (digest: string): Promise<string | undefined> =>
  /serial: (\d+)/.exec((await pullRelease(content, digest)).files.get('release.yaml') ?? '')?.[1];

async function push(number: number, tag = 'production'): Promise<string> {
  makeSampleRelease(at('release'), number);
  const { status, stdout, stderr } = await sluice('push', at('release'), `oci:${at('layout')}:${tag}`);
  expect({ status, stderr }).toMatchObject({ status: 0 });
  return stdout.trim().replace(/^.*@/, '');
}

test('keeps the newest release of a tag and the one before, with their signatures, and no other blob', async () => {
  const digests = [await push(1), await push(2), await push(3)];
  expect(entries().map(({ digest, annotations }) => [digests.indexOf(digest) + 1, annotations])).toEqual([
    [3, { 'org.opencontainers.image.ref.name': 'production' }],
    [2, { 'dev.sluice.previous': 'production' }],
    [0, { 'dev.sluice.subject': digests[1] }],
    [0, { 'dev.sluice.subject': digests[2] }],
  ]);
  expect(await content.resolve('production')).toBe(digests[2]);
  expect([await serial(digests[2] as string), await serial(digests[1] as string)]).toEqual(['3', '2']);
  await expect(serial(digests[0] as string)).rejects.toThrow('there is no such file');
  expect(blobs()).not.toContain(digests[0]?.slice('sha256:'.length));
  const many = blobs().length;
  await push(3);
  expect(blobs()).toHaveLength(many);
  expect(entries()).toHaveLength(4);
});

test('keeps another tag, and what another tool wrote', async () => {
  const first = await push(1, 'canary');
  const foreign = Buffer.from(
    '{"layers":[],"config":{"mediaType":"x","digest":"sha256:' + fileDigest('x') + '","size":1}}',
  );
  const digest = `sha256:${fileDigest(foreign)}`;
  writeFileSync(at(`layout/blobs/${digest.replace(':', '/')}`), foreign);
  writeFileSync(at(`layout/blobs/sha256/${fileDigest('x')}`), 'x');
  const image = { mediaType: 'application/vnd.oci.image.manifest.v1+json', digest, size: foreign.length };
  writeFileSync(at('layout/index.json'), JSON.stringify({ schemaVersion: 2, manifests: [...entries(), image] }));
  for (const number of [2, 3, 4]) await push(number);
  expect(await content.resolve('canary')).toBe(first);
  expect(await serial(first)).toBe('1');
  expect(entries()).toContainEqual(image);
  expect(blobs()).toEqual(expect.arrayContaining([fileDigest(foreign), fileDigest('x')]));
});

test('a later signature is added, and the release stays', async () => {
  await push(1);
  const digest = await push(2);
  writeFileSync(at('release/SHA256SUMS.bob.sig'), signatureOf('bob'));
  await sluice('push', at('release'), `oci:${at('layout')}:production`);
  const { referrers } = await content.referrers(digest);
  expect(referrers).toHaveLength(2);
  expect(entries().filter(({ annotations }) => annotations?.['dev.sluice.previous'] !== undefined)).toHaveLength(1);
});

test.each(['{', '[]', '{"manifests":{}}'])('an index.json of another form (%s) is left as it is', async (text) => {
  writeFileSync(at('layout/index.json'), text);
  makeSampleRelease(at('release'), 1);
  const { status, stderr } = await sluice('push', at('release'), `oci:${at('layout')}:production`);
  expect(status).toBe(2);
  expect(stderr).toContain('[REGISTRY_INVALID]');
  expect(readFileSync(at('layout/index.json'), 'utf8')).toBe(text);
});

describe('at any moment', () => {
  test('a reader finds a whole release while others are pushed', async () => {
    await push(1);
    const found = new Set<string | undefined>();
    for (const number of [2, 3, 4]) {
      makeSampleRelease(at('release'), number);
      // Another process, because a push in this one would let no reader in between.
      const child = spawn(programPath('sluice'), ['push', at('release'), `oci:${at('layout')}:production`]);
      const ended = new Promise((done) => child.once('exit', done));
      while (child.exitCode === null) {
        found.add(await serial(await content.resolve('production')));
        await sleep(1);
      }
      expect(await ended).toBe(0);
    }
    expect(found.size).toBeGreaterThan(1);
    expect([...found].every((one) => Number(one) >= 1 && Number(one) <= 4)).toBe(true);
  });

  test('a killed push leaves the old release or the new one, and the next push cleans up', async () => {
    const random = randomOf(seed);
    await push(1);
    for (let number = 2; number < 2 + atTier({ quick: 3, test: 6, all: 20 }); number++) {
      makeSampleRelease(at('release'), number);
      const child = spawn(programPath('sluice'), ['push', at('release'), `oci:${at('layout')}:production`]);
      await killedAfter(child, random() * 1500);
      expect([String(number), String(number - 1)]).toContain(await serial(await content.resolve('production')));
      await push(number);
      expect(await serial(await content.resolve('production'))).toBe(String(number));
      expect(blobs().filter((name) => !/^[0-9a-f]{64}$/.test(name))).toEqual([]);
    }
  });
});

async function killedAfter(child: ChildProcess, ms: number): Promise<void> {
  const ended = new Promise((done) => child.once('exit', done));
  await Promise.race([sleep(ms), ended]);
  child.kill('SIGKILL');
  await ended;
}

describe('behind a web server', () => {
  async function serve(nature: LoopbackNature = {}): Promise<StaticServer> {
    const server = await StaticServer.open(at('layout'), nature);
    servers.push(server);
    return server;
  }
  const reading = ({ url }: StaticServer, options: HttpOptions = {}) =>
    layoutContent(url, webReader(new WebClient(url, options)));

  test('index.json is requested by its ETag, and with a cache only what is new', async () => {
    const digest = await push(1);
    const server = await serve();
    const web = reading(server);
    const cache = new BlobCache(at('cache'));
    for (let n = 0; n < 3; n++) expect(await web.resolve('production')).toBe(digest);
    expect(server.answered).toEqual(['GET /index.json 200', 'GET /index.json 304', 'GET /index.json 304']);
    const { files, digests } = await pullRelease(web, digest, undefined, cache);
    cache.prune(digests);
    server.answered.length = 0;
    expect(await web.resolve('production')).toBe(digest);
    expect((await pullRelease(web, digest, undefined, cache)).files).toEqual(files);
    // What named the tag has the signatures, too.
    expect(server.answered).toEqual(['GET /index.json 304']);
    const next = await push(2);
    server.answered.length = 0;
    await pullRelease(web, next, undefined, cache);
    const fetched = server.answered.filter((line) => line.includes('/blobs/'));
    // Index, shared manifest, first layer; the signature has a manifest and a layer.
    expect(fetched).toHaveLength(5);
  });

  test('a private authority is trusted by its certificate, and no other', async () => {
    const digest = await push(1);
    const until = new Date('2099-01-01T00:00:00Z');
    const authority = makeAuthority('an authority of our own', until);
    const server = await serve({ identity: authority.issue('web', until) });
    expect(await reading(server, { ca: authority.certificate }).resolve('production')).toBe(digest);
    const other = makeAuthority('another', until).certificate;
    await expect(reading(server, { ca: other }).resolve('production')).rejects.toMatchObject({
      problem: { code: 'REGISTRY_UNREACHABLE', message: expect.stringContaining('verify') },
    });
  });

  test('is reached through a proxy, with TLS from end to end', async () => {
    const digest = await push(1);
    const until = new Date('2099-01-01T00:00:00Z');
    const authority = makeAuthority('an authority of our own', until);
    const server = await serve({ identity: authority.issue('web', until) });
    const tunnels: string[] = [];
    const proxy = createServer().on('connect', ({ url = '' }, socket) => {
      tunnels.push(url);
      const target = connect(Number(url.split(':')[1]), '127.0.0.1', () => {
        socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
        target.pipe(socket).pipe(target);
      });
    });
    await new Promise<void>((listening) => proxy.listen(0, '127.0.0.1', listening));
    const options = { ca: authority.certificate, proxy: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` };
    try {
      expect((await pullRelease(reading(server, options), digest)).files.size).toBeGreaterThan(5);
      expect(new Set(tunnels)).toEqual(new Set([new URL(server.url).host]));
    } finally {
      proxy.closeAllConnections();
      proxy.close();
    }
  });

  test('a download that ends too early goes on, and the release is whole', async () => {
    const digest = await push(1);
    let cuts = 0;
    const server = await serve({
      instead: (request, response) => {
        if (!request.url?.includes('/blobs/') || request.headers.range !== undefined || cuts++ > 2) return false;
        const bytes = readFileSync(at(`layout/${request.url}`));
        response.writeHead(200, { 'content-length': bytes.length });
        response.write(bytes.subarray(0, 20), () => response.socket?.destroy());
        return true;
      },
    });
    expect((await pullRelease(reading(server), digest)).files.size).toBeGreaterThan(5);
    expect(server.answered.filter((line) => line.endsWith(' 206'))).toHaveLength(3);
  });

  test.each<[what: string, body: Buffer]>([
    ['other bytes', Buffer.from('x')],
    ['an endless body', Buffer.alloc(8 << 20)],
  ])('%s under a digest: refused', async (_what, body) => {
    const digest = await push(1);
    const server = await serve({
      instead: ({ url }, response) => url?.includes('/blobs/') === true && (response.end(body), true),
    });
    await expect(pullRelease(reading(server), digest)).rejects.toMatchObject({ problem: { code: 'REGISTRY_INVALID' } });
  });

  test('an address with http to another machine needs --plain-http', async () => {
    const ran = await sluice('pull', `http://192.0.2.1/x@sha256:${'0'.repeat(64)}`, '-o', at('pulled'));
    expect(ran).toMatchObject({ status: 2, stderr: expect.stringContaining('it is not a permitted URL') });
  });
});
