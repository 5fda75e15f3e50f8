import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { Alarms, serveHealth } from './health.ts';
import { Metrics } from './metrics.ts';

let server: Server | undefined;
let now = 0;
const alarms = new Alarms(() => now);

afterEach(() => {
  server?.close();
  server = undefined;
  alarms.clear('api');
});

/** Serves on a free port and sends a request. */
async function ask(path: string, method = 'GET'): Promise<{ status: number; body: string }> {
  server ??= await serveHealth('127.0.0.1:0', alarms, new Metrics());
  const { port } = server.address() as AddressInfo;
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { method });
  return { status: response.status, body: await response.text() };
}

test('healthz fails after an alarm of ten seconds, livez never', async () => {
  now = 1000;
  alarms.raise('api', 'the API does not answer');
  now = 10_999;
  expect(await ask('/healthz')).toEqual({ status: 200, body: 'ok\n' });
  now = 11_000;
  expect(await ask('/healthz')).toEqual({ status: 503, body: 'api: the API does not answer\n' });
  expect((await ask('/livez')).status).toBe(200);
  alarms.clear('api');
  expect((await ask('/healthz')).status).toBe(200);
});

test('keeps the age of an alarm when its reason changes', () => {
  now = 0;
  expect(alarms.raise('api', 'refused')).toBe(true);
  now = 9000;
  expect(alarms.raise('api', 'refused')).toBe(false);
  expect(alarms.raise('api', 'certificate expired')).toBe(true);
  now = 10_000;
  expect(alarms.active(10_000)).toEqual(['api: certificate expired']);
});

test('refuses other methods and other paths', async () => {
  expect((await ask('/healthz', 'POST')).status).toBe(405);
  expect((await ask('/../etc/passwd')).status).toBe(404);
  expect((await ask('/healthz?verbose')).status).toBe(200);
});

test('reports why it cannot listen on an address', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => other.once('listening', resolve));
  const { port } = other.address() as AddressInfo;
  await expect(serveHealth(`127.0.0.1:${port}`, alarms, new Metrics())).rejects.toMatchObject({
    problems: [{ code: 'LISTEN_FAILED' }],
  });
  other.close();
});
