import { createServer, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcp, type Server as TcpServer } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ProbeConfig } from './config.ts';
import { runChildren } from './kernel/run.ts';
import { configuredProbes } from './probe.ts';

let web: Server;
let silent: TcpServer;
let asked = 0;
const portOf = (server: TcpServer): number => (server.address() as AddressInfo).port;

beforeAll(async () => {
  web = createServer((request, response) => {
    asked++;
    if (request.url === '/late') return;
    const status = request.url === '/third' ? (asked % 3 === 0 ? 200 : 503) : Number(request.url?.slice(1));
    response.writeHead(status, { location: '/500' }).end('x');
  });
  silent = createTcp(() => undefined);
  await Promise.all(
    [web, silent].map((server) => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))),
  );
});
afterAll(() => {
  web.closeAllConnections();
  web.close();
  silent.close();
});

const times = { name: 'x', attempts: 3, intervalSeconds: 0.25, timeoutSeconds: 0.2 };
const probesOf = (probe: ProbeConfig) => configuredProbes([probe], runChildren());
const http = (path: string): ProbeConfig => ({ ...times, http: `http://127.0.0.1:${portOf(web)}${path}` });

test.each([
  ['status 200 is healthy', () => http('/200'), true, 'status 200'],
  ['a redirect is healthy and not followed', () => http('/302'), true, 'status 302'],
  ['status 404 is not', () => http('/404'), false, 'status 404'],
  ['no answer in time is not', () => http('/late'), false, 'no answer within 200 ms'],
  [
    'an accepted connection is',
    (): ProbeConfig => ({ ...times, tcp: `127.0.0.1:${portOf(silent)}` }),
    true,
    'connected',
  ],
  ['a closed port is not', (): ProbeConfig => ({ ...times, tcp: '127.0.0.1:1' }), false, 'ECONNREFUSED'],
  ['a command that ends with 0 is', (): ProbeConfig => ({ ...times, exec: ['/bin/true'] }), true, 'exit code 0'],
  [
    'a command that ends with another code is not',
    (): ProbeConfig => ({ ...times, exec: ['/bin/false'] }),
    false,
    'exit code 1',
  ],
  [
    'a command that hangs is not',
    (): ProbeConfig => ({ ...times, exec: ['/bin/sleep', '9'] }),
    false,
    'it did not end in time',
  ],
  ['a command that is not there is not', (): ProbeConfig => ({ ...times, exec: ['/nonexistent'] }), false, 'ENOENT'],
])('%s', async (_title, probe, healthy, seen) => {
  const [result] = await probesOf(probe()).once();
  expect(result?.healthy).toBe(healthy);
  expect(result?.seen).toContain(seen);
});

test('a probe counts as failed when all of its attempts in a row were bad, and rounds are as far apart as the shortest asks', () => {
  const probes = configuredProbes(
    [
      { ...times, tcp: '127.0.0.1:1' },
      { ...times, name: 'y', attempts: 5, intervalSeconds: 0.1, tcp: '127.0.0.1:1' },
    ],
    runChildren(),
  );
  expect(probes.policies).toEqual([
    { name: 'x', failures: 3, window: 3 },
    { name: 'y', failures: 5, window: 5 },
  ]);
  expect(probes.intervalMs).toBe(100);
});
