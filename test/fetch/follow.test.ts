// @module-tag test
import { mkdirSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { sampleBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { Fetcher } from '../../packages/applier/src/testing/fetch.fixture.ts';
import { readSourceStatus } from '../../packages/applier/src/fetch/status-file.ts';
import { ReleaseServer } from '../../packages/renderer/src/commands/watch/serve/server.ts';
import { printEvent } from '../../packages/transport/src/content/events.ts';
import { makeAuthority } from '../cluster/certificates.fixture.ts';
import { freePort } from '../cluster/port.fixture.ts';
import { StaticServer } from '../registry/static.fixture.ts';
import { writeLayout } from './publish.fixture.ts';
import { sourceScene } from './scene.fixture.ts';

/** `sluice watch --serve` and the fetch process that follows it, on loopback with an authority of the test. */

const { scene, at, closed } = sourceScene();
const { publish, directory: release } = scene;

const authority = makeAuthority('the authority of the test', new Date('2099-01-01'));
const later = new Date('2099-01-01');
const services = (port: number) => sampleBundle({ services: { 'shop/web': [port] } });

let stops: AbortController[] = [];
let runs: Promise<void>[] = [];
let failures: (string | undefined)[] = [];
beforeEach(() => {
  [stops, runs, failures] = [[], [], []];
  write('ca.pem', authority.certificate);
});
afterEach(async () => {
  for (const stop of stops) stop.abort();
  await Promise.all(runs);
});

function write(name: string, text: string): string {
  mkdirSync(at(''), { recursive: true });
  writeFileSync(at(name), text, { mode: 0o644 });
  return at(name);
}

/** Files with a certificate for 127.0.0.1 and its key. */
function identityFiles(name: string, from = authority) {
  const { certificate, key } = from.issue(name, later);
  return { certificate: write(`${name}.crt`, certificate), key: write(`${name}.key`, key) };
}

interface Served {
  readonly address?: string;
  readonly layout?: string;
  readonly clientAuthorities?: string;
}

/** A server of a layout, which serves what is there. */
async function serve({
  address = '127.0.0.1:0',
  layout = 'www',
  clientAuthorities,
}: Served = {}): Promise<ReleaseServer> {
  const report = { followers: () => undefined, failed: (why: string | undefined) => void failures.push(why) };
  const identity = { ...identityFiles('server'), clientAuthorities };
  const server = await ReleaseServer.open(address, { dir: at(layout), tag: 'latest' }, identity, report);
  closed(server);
  server.serve();
  return server;
}

const urlOf = ({ port }: { readonly port: number }): string => `https://127.0.0.1:${port}`;

/** Publishes a release into the layout, and tells the server. */
function put(server: ReleaseServer | undefined, serial: number, layout = 'www'): void {
  publish({ serial, files: services(serial) });
  writeLayout(at(layout), release, 'latest');
  server?.serve();
}

interface Following {
  readonly fetcher: Fetcher;
  readonly said: readonly string[];
  readonly stop: AbortController;
}

/** A node that follows, with an interval that is longer than any test. */
function follow(url: string | readonly string[], more: object = {}): Following {
  const https = { url, events: true, ...more };
  const fetcher = new Fetcher(scene, { https, caFile: at('ca.pem'), intervalSeconds: 3600, secondsMax: 20 });
  const [stop, said] = [new AbortController(), []];
  stops.push(stop);
  runs.push(fetcher.follow(stop.signal, said));
  return { fetcher, said, stop };
}

async function until(is: () => unknown, timeout = 15_000): Promise<void> {
  await vi.waitFor(() => expect(Boolean(is())).toBe(true), { timeout, interval: 10 });
}
const status = ({ fetcher }: Following) => readSourceStatus(fetcher.directory);
const hasSerial = async (node: Following, serial: number): Promise<void> => {
  await until(() => status(node)?.serial === serial);
  expect(await node.fetcher.taken()).toBe(`serial ${serial}`);
};
const follows = (node: Following, count = 1): Promise<void> =>
  until(() => node.said.filter((line) => line.startsWith('follows')).length >= count);

describe('a node that follows', () => {
  test('has each release within a moment, although its interval is an hour', async () => {
    put(undefined, 5);
    const server = await serve();
    const node = follow(urlOf(server));
    await hasSerial(node, 5);
    await follows(node);
    put(server, 6);
    await hasSerial(node, 6);
    expect(failures.filter((why) => why !== undefined)).toEqual([]);
  }, 40_000);

  test('comes back after the stream was cut, and after the server was restarted', async () => {
    put(undefined, 5);
    const port = await freePort();
    const address = `127.0.0.1:${port}`;
    const first = await serve({ address });
    const node = follow(`https://${address}`);
    await follows(node);
    first.refuse('it changes its role');
    first.serve();
    await follows(node, 2);
    put(first, 6);
    await hasSerial(node, 6);
    first.close();
    put(undefined, 7);
    await serve({ address });
    await hasSerial(node, 7);
    expect(node.said.filter((line) => line.startsWith('cannot follow')).length).toBeGreaterThanOrEqual(2);
  }, 60_000);

  test('goes from a server that does not serve to the next one', async () => {
    put(undefined, 5);
    const [one, two] = [await serve(), await serve()];
    two.refuse('sluice-watch-1 holds Lease sluice/watch');
    const node = follow([urlOf(two), urlOf(one)]);
    await hasSerial(node, 5);
    await follows(node);
    expect(node.said.join('\n')).toContain('answered 503');
    one.refuse('it ends');
    two.serve();
    put(two, 6);
    await hasSerial(node, 6);
  }, 60_000);

  test('takes no release that is older than the newest one, and goes on with the next', async () => {
    put(undefined, 6);
    const server = await serve();
    const node = follow(urlOf(server));
    await hasSerial(node, 6);
    put(server, 5);
    await until(() => status(node)?.problem?.code === 'RELEASE_SERIAL');
    expect(await node.fetcher.taken()).toBe('serial 6');
    put(server, 7);
    await hasSerial(node, 7);
  }, 40_000);

  test('does not trust the certificate of another authority, nor one of another name', async () => {
    put(undefined, 5);
    const server = await serve();
    write('ca.pem', makeAuthority('another', later).certificate);
    const stranger = follow(urlOf(server));
    await until(() => status(stranger)?.problem?.code === 'REGISTRY_UNREACHABLE');
    await until(() => stranger.said.some((line) => line.startsWith('cannot follow')));
    stranger.stop.abort();
    write('ca.pem', authority.certificate);
    const renamed = follow(`https://localhost:${server.port}`);
    await until(() => /IP|altnames|localhost/.test(status(renamed)?.problem?.message ?? ''));
    expect(await renamed.fetcher.taken()).toBe('absent');
  }, 60_000);
});

describe('with --client-ca', () => {
  test('a node with a certificate of these authorities is served, and no other one', async () => {
    put(undefined, 5);
    const server = await serve({ clientAuthorities: write('clients.pem', authority.certificate) });
    const stranger = follow(urlOf(server));
    await until(() => status(stranger)?.outcome === 'failed');
    stranger.stop.abort();
    const own = authority.issue('node', later);
    const certificateFile = write('node.pem', `${own.certificate}${own.key}`);
    const node = follow(urlOf(server), { certificateFile });
    await hasSerial(node, 5);
    await follows(node);
    const foreign = makeAuthority('another', later).issue('node', later);
    write('node.pem', `${foreign.certificate}${foreign.key}`);
    node.stop.abort();
    const other = follow(urlOf(server), { certificateFile });
    await until(() => status(other)?.outcome === 'failed');
    write('node.pem', own.certificate);
    other.stop.abort();
    const keyless = follow(urlOf(server), { certificateFile });
    await until(() => status(keyless)?.problem?.code === 'SOURCE_ACCESS');
    expect(status(keyless)?.problem?.message).toContain('it is not a certificate with its key');
  }, 60_000);
});

describe('a hostile stream of events', () => {
  /** A server of static files whose events are what a test says. */
  async function hostile(events: (request: IncomingMessage, response: ServerResponse) => void): Promise<StaticServer> {
    const web = closed(await StaticServer.open(at('www'), { identity: authority.issue('web', later) }));
    web.instead = (request, response) => request.url === '/events' && (events(request, response), true);
    return web;
  }
  const stream = { 'content-type': 'text/event-stream' };
  const event = (etag: string): string => printEvent({ etag, digest: `sha256:${'f'.repeat(64)}`, serial: 99 });
  const drip = (response: ServerResponse, text: () => string): void => {
    const timer = setInterval(() => response.write(text()), 5);
    response.on('close', () => clearInterval(timer));
  };

  test.each<[title: string, why: RegExp, events: (request: IncomingMessage, response: ServerResponse) => void]>([
    [
      'of one huge line',
      /a line of it has more than 1024 bytes/,
      (_request, response) => drip(response.writeHead(200, stream), () => 'x'.repeat(500)),
    ],
    [
      'without end',
      /more than 1024 bytes per second/,
      (_request, response) => drip(response.writeHead(200, stream), () => ':\n'.repeat(10_000)),
    ],
    [
      'of another form',
      /an event of it has no ETag or no digest/,
      (_request, response) => void response.writeHead(200, stream).write('event: release\nid: x\ndata: y\n\n'),
    ],
    [
      'of another type',
      /it is not a stream of events/,
      (_request, response) => void response.writeHead(200, { 'content-type': 'text/html' }).write('<html>'),
    ],
    [
      'that leads elsewhere',
      /answered 302/,
      (_request, response) => void response.writeHead(302, { location: 'https://127.0.0.1:1/events' }).end(),
    ],
    [
      'with endless headers',
      /cannot follow/,
      ({ socket }) => {
        socket.write('HTTP/1.1 200 OK\r\n');
        const timer = setInterval(() => socket.write(`x: ${'y'.repeat(4_000)}\r\n`), 5);
        socket.on('close', () => clearInterval(timer));
      },
    ],
  ])(
    '%s is left, and the release of the source comes all the same',
    async (_title, why, events) => {
      put(undefined, 5);
      const web = await hostile(events);
      const node = follow(web.url);
      await hasSerial(node, 5);
      await until(() => node.said.some((line) => why.test(line)));
      expect(await node.fetcher.taken()).toBe('serial 5');
    },
    40_000,
  );

  test('that tells of releases which are not there leads to few looks', async () => {
    put(undefined, 5);
    let n = 0;
    const web = await hostile((_request, response) => drip(response.writeHead(200, stream), () => event(`"${n++}"`)));
    const node = follow(web.url);
    await hasSerial(node, 5);
    const before = web.seen.length;
    await sleep(3_000);
    // Pauses of 100 ms, 200, 400, 800, 1600 …, while the stream is ended for its rate again and again: five looks. Without the pauses there
    // would be fifty.
    expect(web.seen.slice(before).filter((line) => line.includes('index.json')).length).toBeLessThanOrEqual(5);
    expect(n).toBeGreaterThan(50);
    expect(await node.fetcher.taken()).toBe('serial 5');
  }, 40_000);
});
