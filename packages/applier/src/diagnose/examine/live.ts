import { createSocket } from 'node:dgram';
import { closeSync, constants, openSync, readSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { addressOfEndpoint, printEndpoint, type TransportProtocol } from '@sluice/netfilter';
import type { Run } from '../../kernel/command.ts';
import { findTool } from '../../kernel/tools.ts';
import type { Frontend, LiveAnswer, LiveFacts } from '../doctor/facts.ts';
import { followedMax, sample } from '../doctor/packets.ts';
import { bounds } from './bounds.ts';

/** Where packets of the doctor go. */
interface Place {
  readonly address: string;
  readonly port: number;
  readonly protocol: TransportProtocol;
}

/**
 * Opens a connection to each of some endpoints, and one to the first frontend, whose packets nftables traces. The rule that traces is in a
 * table that belongs to a process of nft: the kernel removes it with that process, which ends with this one, and after 10 s at the latest.
 */
export async function observeLive(
  frontends: readonly Frontend[],
  own: readonly string[],
  run: Run,
): Promise<LiveFacts> {
  const places = new Map<string, Place>();
  for (const { endpoints, protocol } of frontends)
    for (const { text } of sample(endpoints, followedMax.endpoints))
      places.set(text, {
        address: addressOfEndpoint(text),
        port: Number(text.slice(text.lastIndexOf(':') + 1)),
        protocol,
      });
  const some = [...places].slice(0, bounds.livePlaces);
  const answers = new Map(
    await Promise.all(some.map(async ([text, place]) => [text, await tryConnection(place)] as const)),
  );
  const traceable = frontends.filter(({ kind, address }) => kind !== 'health-check' && !address?.includes('/'));
  const first = traceable.find(({ address }) => address !== undefined) ?? traceable[0];
  // Node ports do not answer on every address of loopback.
  const usual = own.filter((one) => !/^(?:127\.|::1$|fe80|169\.254\.)/.test(one));
  const address = first && (first.address ?? usual.find((one) => one.includes(':') === (first.family === 'ipv6')));
  if (!first || address === undefined || first.protocol === 'sctp') return { answers, trace: [] };
  const place = { address, port: first.port, protocol: first.protocol };
  const { trace, answer } = await traced(place, run);
  const name = printEndpoint(address, first.port);
  return { answers: answer === undefined ? answers : new Map([...answers, [name, answer]]), trace, traced: name };
}

/** How a connection ends: refused by a reset or an ICMP error, silent after a time-out. UDP without a reply is not told from silence. */
export function tryConnection({ address, port, protocol }: Place, localPort?: number): Promise<LiveAnswer> {
  const { promise, resolve } = Promise.withResolvers<LiveAnswer>();
  const failed = ({ code }: NodeJS.ErrnoException): void =>
    resolve(
      code === 'ECONNREFUSED' || code === 'ECONNRESET' ? 'refused' : code === 'ETIMEDOUT' ? 'silent' : 'unreachable',
    );
  if (protocol === 'udp') {
    const socket = createSocket(address.includes(':') ? 'udp6' : 'udp4');
    // Programs need not answer a datagram that they do not understand: only a refusal tells something.
    const timer = setTimeout(() => resolve('answered'), bounds.liveMs / 4);
    socket.on('error', failed).on('message', () => resolve('answered'));
    // Where there is no route the callback gets the error, and no event tells it.
    const connected = (error?: NodeJS.ErrnoException): void => (error ? failed(error) : socket.send('\0'));
    socket.bind(localPort ?? 0, () => socket.connect(port, address, connected));
    return promise.finally(() => (clearTimeout(timer), socket.close()));
  }
  const socket = connect({ host: address, port, ...(localPort === undefined ? {} : { localPort }) });
  const timer = setTimeout(() => resolve('silent'), bounds.liveMs);
  socket.on('connect', () => resolve('answered')).on('error', failed);
  return promise.finally(() => (clearTimeout(timer), socket.destroy()));
}

/** A port that no program uses now. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, resolve));
  const bound = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof bound === 'object' && bound !== null ? bound.port : 0;
}

async function traced(
  place: Place,
  run: Run,
): Promise<{ readonly trace: readonly string[]; readonly answer: LiveAnswer | undefined }> {
  const [nft, timeout] = [findTool('nft'), findTool('timeout')];
  if (nft === undefined || timeout === undefined) return { trace: [], answer: await tryConnection(place) };
  const port = await freePort();
  const done = Promise.withResolvers<void>();
  const stop = new AbortController();
  const lines: string[] = [];
  const args = [String(bounds.tableSeconds), nft];
  const owner = run({
    file: timeout,
    args: [...args, '-i'],
    input: tableText(place, port, done.promise),
    timeoutMs: bounds.tableSeconds * 1000,
  });
  const monitor = run({
    file: timeout,
    args: [...args, 'monitor', 'trace'],
    timeoutMs: bounds.tableSeconds * 1000,
    signal: stop.signal,
    onOutput: (part) => lines.push(part),
  });
  // Until both have started; a trace that begins later misses rules and is no error.
  await sleep(bounds.startMs);
  const { result: answer, lines: legacy } = await withLegacyTrace(port, async () => {
    const reached = await tryConnection(place, port);
    await sleep(bounds.startMs / 2);
    return reached;
  });
  stop.abort();
  done.resolve();
  await Promise.all([owner, monitor]);
  const trace = ofOwnPackets(lines.join('').split('\n'), port);
  return { trace: [...trace.slice(0, bounds.traceLines), ...legacy], answer };
}

/**
 * The lines of packets from one source port: an operator may trace others at the same time. A packet has one id, and one line with its
 * ports: `trace id 5f3a2b1c ip raw OUTPUT packet: oif "eth0" ip saddr … tcp sport 40000 tcp dport 80 …`.
 */
export function ofOwnPackets(lines: readonly string[], port: number): readonly string[] {
  const idOf = (line: string): string | undefined => /^trace id (\S+) /.exec(line)?.[1];
  const own = new Set(lines.filter((line) => line.includes(` sport ${port} `)).map(idOf));
  return lines.filter((line) => {
    const id = idOf(line);
    return id !== undefined && own.has(id);
  });
}

/** One command a line: this is what nft reads without a terminal. The table lives until `done`. */
async function* tableText(
  { address, port, protocol }: Place,
  localPort: number,
  done: Promise<void>,
): AsyncIterable<string> {
  const table = `inet sluice-doctor-${process.pid}`;
  yield `add table ${table} { flags owner; }\n`;
  yield `add chain ${table} out { type filter hook output priority -450; }\n`;
  const family = address.includes(':') ? 'ip6' : 'ip';
  yield `add rule ${table} out ${family} daddr ${address} ${protocol} dport ${port} ${protocol} sport ${localPort} meta nftrace set 1\n`;
  await done;
}

/**
 * The rules of store legacy that a traced packet met: the kernel logs them, `TRACE: nat:OUTPUT:rule:1 IN= OUT=lo SRC=… SPT=…`, where a
 * logger is loaded (`nf_log_syslog`); from other network namespaces than the first one only with `nf_log_all_netns`. The bit of the packet
 * that `meta nftrace` sets is the one that legacy tables ask for (`skb->nf_trace` in `ip_tables.c`), so no rule of theirs is needed.
 * @param work sends the packet
 * @param port its source port
 * @returns with the result of the work; without a log there are no lines
 */
async function withLegacyTrace<T>(
  port: number,
  work: () => Promise<T>,
): Promise<{ readonly result: T; readonly lines: readonly string[] }> {
  const log = openLog();
  if (log === undefined) return { result: await work(), lines: [] };
  try {
    records(log, () => false);
    const result = await work();
    const mine = new RegExp(` SPT=${port} `);
    return { result, lines: records(log, (text) => text.startsWith('TRACE: ') && mine.test(text)) };
  } finally {
    closeSync(log);
  }
}

function openLog(): number | undefined {
  try {
    return openSync('/dev/kmsg', constants.O_RDONLY | constants.O_NONBLOCK);
  } catch {
    return undefined;
  }
}

/** Reads to the end: each read gives one record, `6,339,5140900,-;text`, with further lines of properties. */
function records(log: number, isWanted: (text: string) => boolean): readonly string[] {
  const found: string[] = [];
  const buffer = Buffer.alloc(8192);
  for (let n = 0; n < bounds.logRecords; n++) {
    try {
      const text = buffer.toString('latin1', 0, readSync(log, buffer));
      const message = text.slice(text.indexOf(';') + 1).split('\n')[0] ?? '';
      if (found.length < bounds.traceLines && isWanted(message)) found.push(message);
    } catch (error) {
      // EPIPE: the oldest records were overwritten meanwhile, and the next one follows.
      if ((error as NodeJS.ErrnoException).code !== 'EPIPE') break;
    }
  }
  return found;
}
