import { isAnswer } from '../../ports/failure.ts';
import { kindOf } from '../failure.ts';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Duplex } from 'node:stream';
import { quoted } from '@sluice/bundle';
import { limits } from '../../limits.ts';
import type { Command, ToolResult, Run } from '../command.ts';
import { type RuleStore, detectTools, findTool, type Tools } from '../tools.ts';
import { type RehearsalAnswer, printAnswer } from './answer.ts';
import { RequestError } from './lines.ts';
import { type RequestPart, readRequest } from './request.ts';

/** Devices that the kernel creates in every network namespace (tunnels of loaded modules); a node has more than these. */
const everywhere: ReadonlySet<string> = new Set([
  'lo',
  'tunl0',
  'gre0',
  'gretap0',
  'erspan0',
  'ip_vti0',
  'ip6_vti0',
  'sit0',
  'ip6tnl0',
  'ip6gre0',
]);

/**
 * Why rules must not be loaded in the network namespace of this process; undefined in an isolated one.
 * @param table the content of /proc/self/net/dev
 */
export function notScratch(table = readFileSync('/proc/self/net/dev', 'utf8')): string | undefined {
  const devices = [...table.matchAll(/^ *([^\s:]+):/gm)].map(([, name = '']) => name);
  const real = devices.filter((name) => !everywhere.has(name));
  return real.length === 0 ? undefined : `this network namespace is in use: it has the device ${real[0]}`;
}

/** What the server of rehearsals works with. */
interface RehearsalServer {
  readonly run: Run;
  /** The tools of a store. */
  readonly tools: (backend: RuleStore) => Promise<Tools>;
  /** `notScratch()` */
  readonly notIsolated: string | undefined;
  /** How long the next part of a request may take to arrive. */
  readonly idleMs: number;
}

/** The server of rehearsals in this process. */
export function rehearsalServer(run: Run): RehearsalServer {
  return {
    run,
    tools: (backend) => detectTools(backend, run),
    notIsolated: notScratch(),
    idleMs: limits.rehearsalIdleMs,
  };
}

/**
 * Serves one rehearsal: reads a request, loads it here, and answers. Loaded rules disappear with the namespace.
 * @param connection carries request and answer; its other end is not trusted
 * @returns the answer that was given
 */
export async function serveRehearsal(connection: Duplex, end: RehearsalServer): Promise<RehearsalAnswer> {
  // A client that disconnects must not change the result.
  connection.on('error', () => {});
  const answer = await rehearse(piecesOf(connection, end.idleMs), end);
  connection.write(printAnswer(answer));
  await dismiss(connection, end.idleMs);
  connection.end();
  return answer;
}

/**
 * The data of a connection, until it ends. Unlike the connection's own iterator, this one gives up on a silent client.
 * @throws RequestError when nothing arrives for too long
 */
async function* piecesOf(connection: Duplex, idleMs: number): AsyncGenerator<Buffer> {
  for (;;) {
    const piece = connection.read() as Buffer | null;
    if (piece !== null) yield piece;
    else if (connection.readableEnded || connection.destroyed) return;
    else await news(connection, idleMs);
  }
}

/** Waits for data, or the end. */
async function news(connection: Duplex, idleMs: number): Promise<void> {
  const waiting = new AbortController();
  const { promise, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new RequestError(`no data for ${idleMs / 1000} s`)), idleMs);
  const events = ['readable', 'end', 'close'].map((event) =>
    // An error ends the connection, which the next look sees.
    once(connection, event, { signal: waiting.signal }).catch(() => {}),
  );
  try {
    await Promise.race([...events, promise]);
  } finally {
    clearTimeout(timer);
    waiting.abort();
  }
}

/** Reads the rest of a request: closing with unread data would destroy the answer for a client that is still writing. */
async function dismiss(connection: Duplex, idleMs: number): Promise<void> {
  if (connection.readableEnded || connection.destroyed) return;
  const { promise, resolve } = Promise.withResolvers<void>();
  for (const event of ['end', 'close', 'error']) connection.once(event, () => resolve());
  const timer = setTimeout(resolve, idleMs);
  connection.resume();
  await promise;
  clearTimeout(timer);
}

async function rehearse(
  source: AsyncIterable<Buffer>,
  { run, tools: find, notIsolated }: RehearsalServer,
): Promise<RehearsalAnswer> {
  if (notIsolated !== undefined) return { answer: 'failed', why: notIsolated };
  try {
    const { backend, parts } = await readRequest(source);
    let tools: Tools | undefined;
    for await (const part of parts) {
      tools ??= await find(backend);
      const answer = await loadPart(part, tools, run);
      if (answer.answer !== 'good') return answer;
    }
    return { answer: 'good' };
  } catch (error) {
    if (error instanceof RequestError) return { answer: 'invalid', why: error.message };
    return { answer: 'failed', why: error instanceof Error ? error.message : String(error) };
  }
}

async function loadPart(part: RequestPart, tools: Tools, run: Run): Promise<RehearsalAnswer> {
  const command = commandOf(part, tools);
  if (command === undefined) return { answer: 'failed', why: `no working tool for part ${part.name}` };
  let wrong: unknown;
  const watched = async function* (): AsyncGenerator<string> {
    try {
      yield* part.text;
    } catch (error) {
      // The result of the run only shows a failure; the answer tells its cause.
      wrong = error;
      throw error;
    }
  };
  const ran = await run({ ...command, input: watched() });
  if (wrong !== undefined) throw wrong;
  return verdictOf(part, ran);
}

/** The tool for a part. It depends on nothing else in the request. */
function commandOf({ name }: RequestPart, { families }: Tools): Command | undefined {
  switch (name) {
    case 'sets':
      return withArgs(findTool('ipset'), ['restore']);
    case 'servers':
      return withArgs(findTool('ipvsadm'), ['-R']);
    case 'ipv4':
    case 'ipv6':
      return withArgs(families[name]?.restore, ['--noflush', '-w', String(limits.xtablesLockSeconds)]);
    case 'nft':
      return withArgs(findTool('nft'), ['-f', '-']);
  }
}

function withArgs(file: string | undefined, args: readonly string[]): Command | undefined {
  return file === undefined ? undefined : { file, args };
}

/** Only a tool that ran to its end gives a verdict. `ipvsadm` exits with 0 although the kernel refused a line, but then prints why. */
function verdictOf({ name }: RequestPart, ran: ToolResult): RehearsalAnswer {
  const { exitCode, stdout, stderr, why } = ran;
  if (exitCode !== 0)
    return isAnswer(kindOf(ran))
      ? { answer: 'refused', part: name, why }
      : { answer: 'failed', why: `the tool for part ${name}: ${why}` };
  const output = name === 'servers' ? `${stdout}${stderr}`.trim() : '';
  return output === '' ? { answer: 'good' } : { answer: 'refused', part: name, why: quoted(output) };
}
