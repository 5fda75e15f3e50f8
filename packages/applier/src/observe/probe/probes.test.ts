import { createServer, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcp, type Server as TcpServer } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ProbeConfig } from '../../config.ts';
import { limits } from '../../limits.ts';
import { configuredProbes } from './probes.ts';

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

const slept: number[] = [];
let nowMs = 0;
const clock = {
  bootMs: () => nowMs,
  sleep: async (ms: number) => {
    slept.push(ms);
    nowMs += ms;
  },
};
const times = { name: 'x', attempts: 3, intervalSeconds: 0.25, timeoutSeconds: 20 };
/** For what never answers. */
const short = { timeoutSeconds: 0.2 };
const probesOf = (probe: ProbeConfig) => configuredProbes([probe], clock);
const http = (path: string): ProbeConfig => ({ ...times, http: `http://127.0.0.1:${portOf(web)}${path}` });

test.each([
  ['status 200 is healthy', () => http('/200'), true, 'status 200'],
  ['a redirect is healthy and not followed', () => http('/302'), true, 'status 302'],
  ['status 404 is not', () => http('/404'), false, 'status 404'],
  ['no answer in time is not', () => ({ ...http('/late'), ...short }), false, 'no answer within 200 ms'],
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
    (): ProbeConfig => ({ ...times, ...short, exec: ['/bin/sleep', '9'] }),
    false,
    'timed out',
  ],
  ['a command that is not there is not', (): ProbeConfig => ({ ...times, exec: ['/nonexistent'] }), false, 'ENOENT'],
])('%s', async (_title, probe, healthy, seen) => {
  const [result] = await probesOf(probe()).once();
  expect(result?.healthy).toBe(healthy);
  expect(result?.seen).toContain(seen);
});

test('retries until a probe passes, with pauses', async () => {
  asked = 0;
  slept.length = 0;
  expect(await probesOf(http('/third')).untilVerdict()).toMatchObject([{ healthy: true }]);
  expect([asked, slept]).toEqual([3, [250, 250]]);
});

test('gives up after the configured attempts', async () => {
  asked = 0;
  expect(await probesOf(http('/500')).untilVerdict()).toMatchObject([
    { healthy: false, seen: 'failed 3 of 3 times, the last: status 500: "x"' },
  ]);
  expect(asked).toBe(3);
});

test.each([
  ['one bad answer of three does not count where two are needed', [true, false, true], 2, true],
  ['two bad answers of three do', [true, false, false], 2, false],
  ['two good answers decide early', [true, true], 2, true],
  ['two bad answers decide early', [false, false], 2, false],
  ['the first bad answer decides where one is enough', [false], 1, false],
  ['one good answer decides where all must be bad', [false, true], 3, true],
] as const)('of a window of three: %s', async (_title, answers, failures, healthy) => {
  let tries = 0;
  const run = async () => ({ exitCode: answers[tries++] ? 0 : 1, stdout: '', stderr: 'no luck', why: '' });
  const probe: ProbeConfig = { ...times, attempts: 3, failures, exec: ['/bin/check'] };
  const [result] = await configuredProbes([probe], clock, run).untilVerdict();
  expect([result?.healthy, tries]).toEqual([healthy, answers.length]);
  expect(result?.seen ?? '').toContain(healthy ? 'exit code' : 'exit code 1: "no luck"');
});

test('prints output as one bounded line of plain text', async () => {
  const stderr = `a\nb\u001b[31m${'x'.repeat(5000)}`;
  const run = async () => ({ exitCode: 1, stdout: '', stderr, why: '' });
  const [result] = await configuredProbes([{ ...times, exec: ['/bin/check'] }], clock, run).once();
  expect(result?.seen).toMatch(/^exit code 1: "a b\?\[31mx{10,400}…"$/);
});

test('fails a probe soon after its timeout', async () => {
  const never = (): Promise<never> => new Promise(() => undefined);
  const [result] = await configuredProbes([{ ...times, ...short, exec: ['/bin/check'] }], clock, never).once();
  expect(result).toEqual({ name: 'x', healthy: false, seen: 'no answer within 200 ms' });
});

test.each([
  ['a port', { tcp: '127.0.0.1:70000' }],
  ['a URL', { http: 'http://[::1/' }],
  ['a name server', { dns: '127.0.0.1:0', query: 'a.b', type: 'A' }],
] as const)('reports %s that cannot run as unhealthy', async (_title, target) => {
  const [result] = await probesOf({ ...times, ...target }).once();
  expect(result).toMatchObject({ healthy: false, seen: expect.stringMatching(/./) });
});

test.each([
  ['/200', true],
  ['/500', false],
])('uses the last try when the verdict would be late: %s', async (path, healthy) => {
  const startMs = nowMs;
  const slow: ProbeConfig = { ...http(path), attempts: 10, intervalSeconds: 20 };
  expect(await probesOf({ ...slow, failures: 2 }).untilVerdict()).toMatchObject([{ healthy }]);
  expect(nowMs - startMs).toBeLessThanOrEqual(limits.baselineMsMax);
});
