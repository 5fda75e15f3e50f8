import { get, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { limits } from '../../limits.ts';
import { StatusPort } from './status-port.ts';

let said: (string | undefined)[];
let port: StatusPort | undefined;
let other: Server | undefined;
const sockets: Socket[] = [];
beforeEach(() => {
  said = [];
});
afterEach(() => {
  port?.close();
  other?.close();
  for (const socket of sockets.splice(0)) socket.destroy();
});

/** Who asks for /slow gets no answer. */
let slow = 0;
const open = (listen: string): StatusPort =>
  (port = new StatusPort(listen, {
    answer: (request, response) => void (request.url === '/slow' ? slow++ : response.end('ok')),
    failed: (why) => said.push(why),
  }));
const ask = (): Promise<number | undefined> =>
  new Promise((resolve, reject) => {
    get({ host: '127.0.0.1', port: port?.number, agent: false }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode));
    }).on('error', reject);
  });

test('reports a port that is in use, and opens it once it is free', async () => {
  const server = createServer();
  other = server;
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const taken = (server.address() as AddressInfo).port;
  const status = open(`127.0.0.1:${taken}`);
  await status.refresh();
  expect(said).toEqual([expect.stringMatching(/^Cannot listen on 127\.0\.0\.1:\d+: listen EADDRINUSE/)]);
  await new Promise((resolve) => server.close(resolve));
  await status.refresh();
  await status.refresh();
  expect(said.slice(1)).toEqual([undefined, undefined]);
  expect(await ask()).toBe(200);
});

test('reports a missing address', async () => {
  await open('192.0.2.1:10276').refresh();
  expect(said).toEqual([expect.stringContaining('EADDRNOTAVAIL')]);
});

test('answers a request while idle clients hold connections', async () => {
  await open('127.0.0.1:0').refresh();
  let connected = 0;
  const idle = (): void => {
    const socket = connect(port?.number ?? 0, '127.0.0.1')
      .on('error', () => undefined)
      .on('connect', () => connected++)
      .on('close', () => connected--)
      .resume();
    sockets.push(socket);
  };
  for (let n = 0; n < 2 * limits.statusConnectionsMax; n++) idle();
  await expect.poll(() => connected).toBe(limits.statusConnectionsMax);
  for (let n = 0; n < 3; n++) expect(await ask()).toBe(200);
  // Longer than a client may take by so much as it takes until this is looked at.
  const waitMs = limits.clientMs + 2 * limits.clientLookMs;
  await expect.poll(() => connected, { timeout: waitMs, interval: 100 }).toBe(0);
}, 15_000);

test('does not count a client with a pending second answer as silent', async () => {
  const answers: ServerResponse[] = [];
  port = new StatusPort('127.0.0.1:0', {
    answer: (_request, response) => void answers.push(response),
    failed: () => undefined,
  });
  await port.refresh();
  const caller = (): Socket => {
    const socket = connect(port?.number ?? 0, '127.0.0.1').on('error', () => undefined);
    sockets.push(socket);
    return socket;
  };
  let heard = '';
  const twice = caller().on('data', (data) => (heard += String(data)));
  twice.write('GET /one HTTP/1.1\r\nHost: a\r\n\r\nGET /two HTTP/1.1\r\nHost: a\r\n\r\n');
  await expect.poll(() => answers.length).toBe(2);
  answers[0]?.end('first');
  await expect.poll(() => heard).toContain('first');
  let closed = 0;
  const others = 2 * limits.statusConnectionsMax;
  for (let n = 0; n < others; n++) caller().on('close', () => closed++);
  await expect.poll(() => closed).toBeGreaterThan(limits.statusConnectionsMax);
  answers[1]?.end('second');
  await expect.poll(() => heard).toContain('second');
  // Now it is as silent as the rest, and longer than those that come.
  const gone = new Promise((resolve) => twice.once('close', resolve));
  for (let n = 0; n < others; n++) caller();
  await gone;
});

test('answers a request while other clients wait for answers', async () => {
  await open('127.0.0.1:0').refresh();
  for (let n = 0; n < limits.statusConnectionsMax; n++) {
    const socket = connect(port?.number ?? 0, '127.0.0.1').on('error', () => undefined);
    socket.write('GET /slow HTTP/1.1\r\nHost: a\r\n\r\n');
    sockets.push(socket);
  }
  await expect.poll(() => slow).toBe(limits.statusConnectionsMax);
  expect(await ask()).toBe(200);
});
