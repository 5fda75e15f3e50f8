import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { limits } from '../../limits.ts';
import { connectToDaemon } from './ask.ts';
import type { Control } from './protocol.ts';
import { ControlSocket } from './socket.ts';

let state: string;
let sockets: ControlSocket[];
let failures: (string | undefined)[];
beforeEach(() => {
  state = mkdtempSync(`${tmpdir()}/slc-`);
  sockets = [];
  failures = [];
});
afterEach(() => {
  for (const socket of sockets) socket.close();
  rmSync(state, { recursive: true, force: true });
});

const newest = { endpoints: 'newest', removeAllServices: false } as const;

async function listen(control: Control): Promise<void> {
  const socket = new ControlSocket(state, control, (why) => void failures.push(why));
  sockets.push(socket);
  await socket.refresh();
}

describe('the socket', () => {
  const still: Control = {
    status: async () => ({ report: null, probation: null, record: {} as never, repairs: [] }),
    look: async () => ({}),
    drain: () => new Promise(() => undefined),
    undrain: async () => ({}),
    decide: async () => Promise.reject(new Error('out of order')),
    planRollback: () => new Promise(() => undefined),
    rollBack: () => new Promise(() => undefined),
    checkpoint: () => new Promise(() => undefined),
    removeCheckpoint: () => new Promise(() => undefined),
    liftQuarantine: () => new Promise(() => undefined),
  };

  async function send(body: string | Buffer): Promise<{ readonly status: number | undefined; readonly text: string }> {
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number | undefined; text: string }>();
    const asked = request(
      { socketPath: `${state}/control.sock`, method: 'POST', path: '/', agent: false },
      (answer) => {
        let text = '';
        answer.on('data', (chunk: Buffer) => (text += chunk.toString()));
        answer.on('end', () => resolve({ status: answer.statusCode, text }));
      },
    );
    asked.on('error', reject);
    asked.end(body);
    return promise;
  }

  test('can be opened only by root, and is removed with its process', async () => {
    await listen(still);
    expect(statSync(`${state}/control.sock`).mode & 0o777).toBe(0o600);
    expect(failures).toEqual([undefined]);
    sockets[0]?.close();
    expect(await connectToDaemon(state)).toBeUndefined();
  });

  test('carries out one request of a connection, however many are sent ahead', async () => {
    let carriedOut = 0;
    await listen({ ...still, liftQuarantine: async ({ name }) => (carriedOut++, { name }) });
    const body = '{"do":"liftQuarantine","name":"x"}';
    const one = `POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    const socket = connect(`${state}/control.sock`);
    let text = '';
    socket.on('data', (chunk) => (text += chunk.toString()));
    socket.end(one.repeat(100));
    await new Promise((ended) => void socket.on('close', ended));
    expect(carriedOut).toBe(1);
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
  });

  test.each([
    ['no JSON', '{'],
    ['nothing', ''],
    ['another request', '{"do":"format"}'],
    ['a request with more than it has', '{"do":"status","and":1}'],
    ['a decision out of range', '{"do":"decide","decision":{"kind":"extend","seconds":1e9}}'],
    ['too much', `{"do":"status"${' '.repeat(limits.controlRequestBytesMax)}}`],
  ])('refuses %s, and serves the next request', async (_title, body) => {
    await listen(still);
    const { status, text } = await send(body);
    expect(status).toBe(409);
    expect(JSON.parse(text)).toMatchObject({ exitCode: 3, problems: [{ code: 'NODE_STATE_INVALID' }] });
    expect((await send('{"do":"status"}')).status).toBe(200);
  });

  test('reports internal errors', async () => {
    await listen(still);
    const control = await connectToDaemon(state);
    await expect(control?.decide({ decision: { kind: 'cancel' } })).rejects.toMatchObject({
      message: 'Cannot carry out the request: out of order',
      exitCode: 2,
    });
  });

  test('replaces a stale one of a killed process', async () => {
    const left = await killedServer(`${state}/control.sock`);
    left.close();
    writeFileSync(`${state}/control.sock`, '');
    await expect(connectToDaemon(state)).resolves.toBeUndefined();
    await listen(still);
    expect(await connectToDaemon(state)).toBeDefined();
  });

  test('returns an error when the process ends before it answers', async () => {
    await listen(still);
    const control = await connectToDaemon(state);
    const asked = control?.rollBack({ ...newest, from: 1, to: '1', generation: 1, cancels: null });
    setTimeout(() => sockets[0]?.close(), 50);
    await expect(asked).rejects.toThrow('stopped before it answered');
  });

  test('reports a path that is too long', async () => {
    const deep = `${state}/${'d'.repeat(100)}`;
    mkdirSync(deep);
    const socket = new ControlSocket(deep, still, (why) => void failures.push(why));
    await socket.refresh();
    expect(failures).toEqual([expect.stringContaining('at most 107 bytes')]);
    expect(await connectToDaemon(deep), 'nothing can listen there').toBeUndefined();
  });

  async function killedServer(path: string): Promise<Server> {
    const server = createServer();
    await new Promise<void>((resolve) => void server.listen(path, resolve));
    return server;
  }
});
