import { KernelError, RehearsalError } from '../../ports/failure.ts';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { limits } from '../../limits.ts';
import type { Command, ToolResult } from '../command.ts';
import type { RehearsalLoad } from './load.ts';
import { placeOf } from './rehearse.ts';
import { notScratch, serveRehearsal } from './serve.ts';
import { rehearseInUnit } from './unit.ts';

const folder = mkdtempSync(join(tmpdir(), 'sluice-rehearse-'));
const path = join(folder, 'sock');
let server: Server | undefined;
const open = new Set<Socket>();
afterEach(async () => {
  for (const socket of open) socket.destroy();
  open.clear();
  await new Promise((done) => (server ? server.close(done) : done(undefined)));
  server = undefined;
});
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

/** A socket behind which somebody does this with each connection. */
async function behind(serve: (socket: Socket) => unknown): Promise<void> {
  server = createServer({ allowHalfOpen: true }, (socket) => {
    open.add(socket.on('error', () => {}));
    void serve(socket);
  });
  await new Promise<void>((done) => void server?.listen(path, done));
}

const text = '*nat\n:KUBE-A - [0:0]\n-A KUBE-A -j RETURN\nCOMMIT\n';
const load = (rules = text): RehearsalLoad => ({
  backend: 'nft',
  sets: '',
  servers: '',
  rules: new Map([['ipv4', [rules]]]),
  nft: '',
});
const tools = {
  backend: 'nft',
  families: { ipv4: { iptables: '/x/iptables', save: '/x/save', restore: '/x/restore', version: '1.8.9' } },
} as const;
const ended = (exitCode: number | undefined, stderr = ''): ToolResult => ({
  exitCode,
  stdout: '',
  stderr,
  why: stderr,
});

/** The far end with a tool that reads everything, or nothing, and ends so. */
function far(ran: ToolResult, reads = true, notIsolated?: string): (socket: Socket) => Promise<unknown> {
  const run = async ({ input }: Command): Promise<ToolResult> => {
    if (reads && input !== undefined && typeof input !== 'string') for await (const part of input) taken.push(part);
    return ran;
  };
  return (socket) => serveRehearsal(socket, { run, tools: async () => tools, notIsolated, idleMs: 200 });
}
let taken: string[] = [];

describe('a finished rehearsal', () => {
  test('is good when the tool accepted everything that was sent', async () => {
    taken = [];
    await behind(far(ended(0)));
    await rehearseInUnit(path, load());
    expect(taken.join('')).toBe(text);
  });

  test.each([
    ['a short text', text, true],
    ['a text of which the tool read nothing', text, false],
    ['25 MB of which the tool read nothing', text.repeat(500_000), false],
  ])('refuses the rules when the tool does: %s', async (_title, rules, reads) => {
    await behind(far(ended(2, 'iptables-restore: line 3 failed'), reads));
    const rehearsal = rehearseInUnit(path, load(rules));
    await expect(rehearsal).rejects.toBeInstanceOf(KernelError);
    await expect(rehearsal).rejects.toThrow(
      'Cannot run iptables-restore in a scratch namespace: iptables-restore: line 3 failed',
    );
  });
});

describe('a rehearsal that could not run gives no verdict:', () => {
  const hold = (socket: Socket): unknown => socket.resume();
  const say = (words: string) => (socket: Socket) => socket.resume().end(words);
  test.each([
    ['the tool was ended', far(ended(undefined, 'timed out')), 'timed out'],
    ['it is not where it should be', far(ended(0), true, 'it has the device eth0'), 'device eth0'],
    ['the far end ends at once', (socket: Socket) => socket.destroy(), 'ended without an answer'],
    ['the far end ends when it has read', (socket: Socket) => socket.once('data', () => socket.destroy()), 'ended'],
    ['the far end reads and says nothing', (socket: Socket) => socket.resume().end(), 'ended without an answer'],
    ['the far end hangs', hold, 'did not answer within 0.3 s'],
    ['the far end reads nothing', () => undefined, 'did not answer within 0.3 s'],
    ['it says something else', say('HTTP/1.1 200 OK\n'), 'no valid answer'],
    ['it says an answer that there is not', say('{"answer":"perhaps"}\n'), 'no valid answer'],
    ['it says more than the answer', say('{"answer":"good"}\n{"answer":"good"}\n'), 'no valid answer'],
    ['it says half of the answer', say('{"answer":"good"}'), 'no valid answer'],
    [
      'it says more than any answer',
      say(`{"answer":"${'x'.repeat(limits.rehearsalAnswerBytesMax)}"}\n`),
      'no valid answer',
    ],
    [
      'a part that there is not is refused',
      say('{"answer":"refused","part":"/bin/sh","why":"x"}\n'),
      'no valid answer',
    ],
  ])('%s', async (_title, serve, why) => {
    await behind(serve);
    // Only who hangs is waited for: on a busy machine the others take long, too.
    const limitMs = why.includes('0.3 s') ? 300 : 10_000;
    const rehearsal = rehearseInUnit(path, load(text.repeat(20_000)), limitMs);
    await expect(rehearsal).rejects.toBeInstanceOf(RehearsalError);
    await expect(rehearsal).rejects.toThrow(why);
  });

  test.each([
    ['there is no socket', join(folder, 'none'), 'does not exist'],
    ['there is a file', import.meta.filename, 'no process listens'],
  ])('%s', async (_title, where, why) => {
    const rehearsal = rehearseInUnit(where, load());
    await expect(rehearsal).rejects.toBeInstanceOf(RehearsalError);
    await expect(rehearsal).rejects.toThrow(why);
  });
});

test.each([
  ['nothing', ''],
  ['the beginning of a request', 'sluice-rehearsal/1 nft\nipv4\n'],
])('stops waiting for a client that sends %s', async (_title, words) => {
  await behind(far(ended(0)));
  const connection = connect(path).setEncoding('utf8');
  connection.write(words);
  let said = '';
  connection.on('data', (part) => (said += String(part)));
  await once(connection, 'close');
  expect(said).toBe('{"answer":"invalid","why":"no data for 0.2 s"}\n');
});

test('returns tool output as printable text of bounded length', async () => {
  const why = `\\u001b[31m\\n${'x'.repeat(2_000)}`;
  await behind((socket) => socket.resume().end(`{"answer":"refused","part":"ipv6","why":"${why}"}\n`));
  const error = await rehearseInUnit(path, load()).catch((caught: unknown) => caught as Error);
  expect(error?.message).toMatch(/^Cannot run ip6tables-restore in a scratch namespace: \[31m x{300}[\x20-\x7e]*$/);
  expect(error?.message.length).toBeLessThan(500);
});

test.each([
  ['the socket decides with auto', 'auto', path, 'unit'],
  ['without one, a namespace is made', 'auto', join(folder, 'none'), 'namespace'],
  ['a file is no socket', 'auto', import.meta.filename, 'namespace'],
  ['a unit that was asked for is asked, there or not', 'unit', join(folder, 'none'), 'unit'],
  ['off is off', 'off', path, 'off'],
] as const)('%s', async (_title, wanted, where, place) => {
  await behind(() => undefined);
  expect(placeOf(wanted, where)).toBe(place);
});

const head = 'Inter-|   Receive\n face |bytes    packets\n';
test.each([
  ['only what is in every namespace', `${head}    lo: 0 0\n  sit0: 0 0\n`, undefined],
  ['a card', `${head}    lo: 0 0\n  eth0: 0 0\n`, expect.stringContaining('eth0')],
  ['a name that looks like it', `${head}    lo0: 0 0\n`, expect.stringContaining('lo0')],
])('decides whether rules may be loaded where there is %s', (_title, devices, why) => {
  expect(notScratch(devices)).toEqual(why);
});
