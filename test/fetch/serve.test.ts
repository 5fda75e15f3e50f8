// @module-tag test
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import { Agent, request as secureRequest } from 'node:https';
import { connect as connectPlain, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect, type TLSSocket } from 'node:tls';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { eventLimits, readEvents } from '../../packages/transport/src/content/events.ts';
import { ReleaseServer } from '../../packages/renderer/src/commands/watch/serve/server.ts';
import { GateScene } from '../../packages/applier/src/testing/gate.fixture.ts';
import { makeAuthority } from '../cluster/certificates.fixture.ts';
import { writeLayout } from './publish.fixture.ts';

/** The server of `sluice watch --serve`, asked as by clients that are not Sluice. */

const scene = new GateScene();
const authority = makeAuthority('the authority of the test', new Date('2099-01-01'));
let dir: string;
let server: ReleaseServer;
let failures: (string | undefined)[];
let followers: number;
const sockets: Socket[] = [];
const at = (name: string): string => join(dir, name);

/** Puts a certificate of this name where the server reads it. */
function certify(name: string): void {
  const { certificate, key } = authority.issue(name, new Date('2099-01-01'));
  writeFileSync(at('tls.crt'), certificate);
  writeFileSync(at('tls.key'), key);
}

function put(serial: number): void {
  scene.publish({ serial });
  writeLayout(at('layout'), scene.directory, 'latest');
}

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-serve-'));
  [failures, followers] = [[], 0];
  certify('first');
  put(5);
  server = await ReleaseServer.open(
    '127.0.0.1:0',
    { dir: at('layout'), tag: 'latest' },
    { certificate: at('tls.crt'), key: at('tls.key') },
    { followers: (count) => (followers = count), failed: (why) => failures.push(why) },
  );
  server.serve();
});
afterEach(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
  server.close();
  rmSync(dir, { recursive: true });
});

interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

async function ask(path: string, headers: Readonly<Record<string, string>> = {}, method = 'GET'): Promise<Answer> {
  const options = { port: server.port, host: '127.0.0.1', path, method, headers, ca: authority.certificate };
  const request = secureRequest({ ...options, agent: new Agent({ keepAlive: false }) });
  request.end();
  const [response] = await once(request, 'response');
  let body = '';
  for await (const chunk of response) body += String(chunk);
  return { status: response.statusCode, headers: response.headers, body };
}

const blobs = (): readonly string[] => readdirSync(at('layout/blobs/sha256'));

describe('files', () => {
  test('index.json is asked for again by its ETag', async () => {
    const first = await ask('/index.json');
    expect(first).toMatchObject({ status: 200, headers: { 'cache-control': 'no-cache' } });
    const etag = first.headers.etag ?? '';
    expect(etag).toMatch(/^"[0-9a-f]{64}"$/);
    for (const known of [etag, `"other", W/${etag}`])
      expect(await ask('/index.json', { 'if-none-match': known })).toMatchObject({ status: 304, body: '' });
    put(6);
    server.serve();
    const next = await ask('/index.json', { 'if-none-match': etag });
    expect(next.status).toBe(200);
    expect(next.headers.etag).not.toBe(etag);
  });

  test('a blob may be kept for ever', async () => {
    const [name = ''] = blobs();
    const blob = await ask(`/blobs/sha256/${name}`);
    expect(blob).toMatchObject({ status: 200, headers: { etag: `"sha256:${name}"` } });
    expect(blob.headers['cache-control']).toContain('immutable');
    const again = await ask(`/blobs/sha256/${name}`, { 'if-none-match': `"sha256:${name}"` });
    expect(again).toMatchObject({ status: 304, body: '' });
    const head = await ask(`/blobs/sha256/${name}`, {}, 'HEAD');
    expect(head).toMatchObject({
      status: 200,
      body: '',
      headers: { 'content-length': blob.headers['content-length'] },
    });
  });

  test.each([
    '/',
    '/oci-layout',
    '/../tls.key',
    '/%2e%2e/tls.key',
    '/blobs/sha256/../../../tls.key',
    `/blobs/sha256/${'0'.repeat(64)}`,
    `/blobs/sha512/${'0'.repeat(64)}`,
    '/index.json?x=1',
    '//127.0.0.1/index.json',
  ])('nothing else is there: %s', async (path) => {
    expect((await ask(path)).status).toBe(404);
  });

  test.each(['POST', 'PUT', 'DELETE', 'OPTIONS'])('%s changes nothing', async (method) => {
    const before = blobs();
    expect((await ask('/index.json', {}, method)).status).toBe(405);
    expect(blobs()).toEqual(before);
  });

  test('a process that does not serve says who does, on a connection that it ends', async () => {
    server.refuse('sluice-watch-1 holds Lease sluice/watch');
    for (const path of ['/index.json', `/blobs/sha256/${blobs()[0]}`, '/events'])
      expect(await ask(path)).toMatchObject({
        status: 503,
        headers: { connection: 'close', 'retry-after': '2' },
        body: 'this process does not serve releases: sluice-watch-1 holds Lease sluice/watch\n',
      });
  });
});

/** A connection of TLS that sends this and takes nothing yet. */
async function open(text = ''): Promise<TLSSocket> {
  const socket = connect({ port: server.port, host: '127.0.0.1', ca: authority.certificate });
  sockets.push(socket);
  socket.on('error', () => undefined);
  socket.pause();
  await once(socket, 'secureConnect');
  socket.write(text);
  return socket;
}
const events = 'GET /events HTTP/1.1\r\nhost: x\r\n\r\n';
/** The events that a connection has got. */
async function taken(socket: TLSSocket, count: number): Promise<readonly string[]> {
  const found: string[] = [];
  socket.resume();
  async function* bodies(): AsyncGenerator<Buffer> {
    // Without the headers, and without the lengths of chunks.
    for await (const chunk of socket)
      yield Buffer.from(
        String(chunk)
          .replace(/^HTTP[^]*?\r\n\r\n/, '')
          .replaceAll(/[0-9a-f]+\r\n|\r\n/g, ''),
      );
  }
  for await (const etag of readEvents('the events', bodies())) if (found.push(etag) === count) break;
  return found;
}
const etagNow = async (): Promise<string> => (await ask('/index.json', {}, 'HEAD')).headers.etag ?? '';

describe('followers', () => {
  test('get the present state, and each change', async () => {
    const socket = await open(events);
    await vi.waitFor(() => expect(followers).toBe(1), { timeout: 20_000 });
    const before = await etagNow();
    put(6);
    server.serve();
    expect(await taken(socket, 2)).toEqual([before, await etagNow()]);
    socket.destroy();
    await vi.waitFor(() => expect(followers).toBe(0));
  });

  test('one that reads nothing costs little memory while 30 releases and many events come, and the others have them', async () => {
    const [slow, quick] = [await open(events), await open(events)];
    await vi.waitFor(() => expect(followers).toBe(2), { timeout: 20_000 });
    for (let serial = 6; serial < 36; serial++) {
      put(serial);
      server.serve();
    }
    const newest = await etagNow();
    expect((await taken(quick, 31)).at(-1)).toBe(newest);
    slow.destroy();
  }, 60_000);

  test('200 connections that say nothing, or never end their headers, leave the others undisturbed', async () => {
    const sayings = ['', 'GET /events HTTP/1.1\r\nx: '];
    for (let n = 0; n < 200; n++) {
      const { port } = server;
      // Most of them do not even begin with TLS.
      const one = n % 10 === 0 ? connect({ port, ca: authority.certificate }) : connectPlain(port);
      one.on('error', () => undefined);
      one.resume().write(sayings[n % 20 === 0 ? 1 : 0] ?? '');
      sockets.push(one);
    }
    const socket = await open(events);
    await vi.waitFor(() => expect(followers).toBe(1), { timeout: 20_000 });
    put(6);
    server.serve();
    expect((await taken(socket, 2)).at(-1)).toBe(await etagNow());
    await vi.waitFor(() => expect(sockets.filter((one) => !one.closed).length).toBeLessThan(20), { timeout: 60_000 });
  }, 150_000);

  test.each([
    ['streams of events', () => events],
    ['blobs', () => `GET /blobs/sha256/${blobs()[0]} HTTP/1.1\r\nhost: x\r\n\r\n`],
  ])('a connection that asks for 400 %s and waits for none of them is ended', async (_what, request) => {
    const socket = await open(request().repeat(400));
    let most = 0;
    const look = setInterval(() => (most = Math.max(most, followers)), 1);
    socket.resume();
    await vi.waitFor(() => expect(socket.closed).toBe(true), { timeout: 10_000 });
    clearInterval(look);
    expect(most).toBeLessThan(5);
    await vi.waitFor(() => expect(followers).toBe(0));
  });

  test('headers without end are refused', async () => {
    const socket = await open('GET /index.json HTTP/1.1\r\n');
    const said: string[] = [];
    socket.on('data', (chunk: Buffer) => said.push(String(chunk)));
    socket.resume();
    for (let n = 0; n < 200 && said.length === 0; n++) {
      socket.write(`x-${n}: ${'y'.repeat(500)}\r\n`);
      await sleep(2);
    }
    expect(said.join('')).toMatch(/^HTTP\/1\.1 431 /);
  });
});

describe('with time', () => {
  test('a renewed certificate is shown, and one that is not usable leaves the old one', async () => {
    const nameNow = async (): Promise<string> => {
      const socket = await open();
      return String(socket.getPeerCertificate().subject.CN);
    };
    expect(await nameNow()).toBe('first');
    certify('second');
    server.serve();
    expect(await nameNow()).toBe('second');
    writeFileSync(at('tls.key'), 'nothing');
    server.serve();
    expect(failures.at(-1)).toMatch(/^Cannot serve with .*tls\.crt and .*tls\.key: /);
    expect(await nameNow()).toBe('second');
    certify('third');
    server.serve();
    expect(failures.at(-1)).toBeUndefined();
    expect(await nameNow()).toBe('third');
  });

  test(
    'what another process pushes into the layout is told with the next heartbeat',
    async () => {
      const socket = await open(events);
      await vi.waitFor(() => expect(followers).toBe(1), { timeout: 20_000 });
      const before = await etagNow();
      put(6);
      const told = await taken(socket, 2);
      expect(told[0]).toBe(before);
      expect(told[1]).toBe(await etagNow());
    },
    eventLimits.heartbeatMs + 20_000,
  );
});
