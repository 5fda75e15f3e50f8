// @module-tag test
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test, vi } from 'vitest';
import { sampleBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { Fetcher } from '../../packages/applier/src/testing/fetch.fixture.ts';
import { readSourceStatus } from '../../packages/applier/src/fetch/status-file.ts';
import { ReleaseServer } from '../../packages/renderer/src/commands/watch/serve/server.ts';
import { makeAuthority } from '../cluster/certificates.fixture.ts';
import { writeLayout } from '../fetch/publish.fixture.ts';
import { sourceScene } from '../fetch/scene.fixture.ts';
import { cacheOfWatch, startNginx } from './nginx.ts';

/** Nodes that follow `sluice watch --serve` with nginx between them, which caches what it serves. */

const { scene, at, closed, fetched } = sourceScene();
const later = new Date('2099-01-01');
const authority = makeAuthority('the authority of the test', later);
let stop = new AbortController();
let running: Promise<void> = Promise.resolve();
async function end(): Promise<void> {
  stop.abort();
  await running;
  stop = new AbortController();
}
afterEach(end);

function put(serial: number, server?: ReleaseServer): void {
  scene.publish({ serial, files: sampleBundle({ services: { 'shop/web': [serial] } }) });
  writeLayout(at('www'), scene.directory, 'latest');
  server?.serve();
}

/** A node without a release, whose interval is longer than the test. */
function follow(url: string): Fetcher {
  rmSync(fetched, { recursive: true, force: true });
  const source = { https: { url, events: true }, caFile: at('ca.pem'), intervalSeconds: 3600, secondsMax: 20 };
  const fetcher = new Fetcher(scene, source);
  running = fetcher.follow(stop.signal);
  return fetcher;
}

async function hasSerial(node: Fetcher, serial: number): Promise<void> {
  const serialNow = (): unknown => readSourceStatus(node.directory)?.serial;
  await vi.waitFor(() => expect(serialNow()).toBe(serial), { timeout: 20_000, interval: 10 });
  expect(await node.taken()).toBe(`serial ${serial}`);
}

test('a cache passes events on; it fetches each blob once, and asks for index.json by its ETag', {
  timeout: 120_000,
}, async (context) => {
  const identity = authority.issue('watch', later);
  writeFileSync(at('ca.pem'), authority.certificate, { mode: 0o644 });
  writeFileSync(at('tls.crt'), identity.certificate);
  writeFileSync(at('tls.key'), identity.key);
  put(5);
  const server = closed(
    await ReleaseServer.open(
      '127.0.0.1:0',
      { dir: at('www'), tag: 'latest' },
      { certificate: at('tls.crt'), key: at('tls.key') },
      { followers: () => undefined, failed: () => undefined },
    ),
  );
  server.serve();
  const log = at('nginx.log');
  const directives = cacheOfWatch(`https://127.0.0.1:${server.port}`);
  const nginx = closed(await startNginx(context, { directives, identity: authority.issue('proxy', later), log }));
  /** `GET /index.json 200 … HIT`, without the bytes. */
  const seen = (path: string): readonly string[] =>
    readFileSync(log, 'utf8')
      .split('\n')
      .filter((line) => line.includes(` ${path}`))
      .map((line) => line.replace(/ \d+ (?=[-A-Z]+$)/, ' '));

  const url = `https://127.0.0.1:${nginx.port}`;
  const first = follow(url);
  await hasSerial(first, 5);
  // The cache has the index of before for a second after the event.
  put(6, server);
  await hasSerial(first, 6);
  const fetchedBlobs = seen('/blobs/');
  expect(new Set(fetchedBlobs.map((line) => line.split(' ').at(-1)))).toEqual(new Set(['MISS']));
  await end();

  // nginx counts whole seconds: what it may keep for one second can be answered for almost two.
  await sleep(2_100);
  const second = follow(url);
  await hasSerial(second, 6);
  const more = seen('/blobs/').slice(fetchedBlobs.length);
  expect(more.length).toBeGreaterThan(3);
  expect(new Set(more.map((line) => line.split(' ').at(-1)))).toEqual(new Set(['HIT']));
  expect(seen('/index.json').some((line) => line.endsWith(' REVALIDATED'))).toBe(true);
});
