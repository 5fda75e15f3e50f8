import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { get as getPlain, type IncomingMessage } from 'node:http';
import { connect, isIPv6 } from 'node:net';
import type { ProbeConfig } from '../../config.ts';
import { limits } from '../../limits.ts';
import { messageOf } from '../../message.ts';
import type { Clock } from '../../ports/clock.ts';
import type { ProbePolicy, ProbeResult, Probes } from '../../ports/probes.ts';
import { hostAndPort, type ProbeAnswer } from './answer.ts';
import { dnsQuestion, readDnsAnswer, type RecordType } from './dns-message.ts';
import { runGroup, type RunGroup } from './run-group.ts';

/** A query to a name server over UDP. */
interface DnsProbe {
  /** `address:port` of the server. */
  readonly dns: string;
  readonly query: string;
  readonly type: RecordType;
}

/**
 * Healthy: the server answers NOERROR with at least one record of the type. Each try has its own socket, and so its own port: for an old one,
 * connection tracking has an entry that leads to the old endpoint.
 */
export function tryDns({ dns, query, type }: DnsProbe, timeoutMs: number): Promise<ProbeAnswer> {
  const { promise, resolve } = Promise.withResolvers<ProbeAnswer>();
  const { host, port } = hostAndPort(dns);
  const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4');
  const question = dnsQuestion(randomInt(0x10000), query, type);
  const end = (healthy: boolean, seen: string): void => {
    clearTimeout(timer);
    socket.removeAllListeners('message');
    socket.removeAllListeners('error').on('error', () => {});
    socket.close();
    resolve({ healthy, seen });
  };
  const timer = setTimeout(() => end(false, `no answer within ${timeoutMs} ms`), timeoutMs);
  socket.on('error', (error) => end(false, error.message));
  socket.on('message', (message) => {
    const answer = readDnsAnswer(message, question);
    if (!answer) return;
    if ('malformed' in answer) return end(false, `malformed answer: ${answer.malformed}`);
    const records = `${answer.records} record${answer.records === 1 ? '' : 's'}`;
    end(answer.code === 'NOERROR' && answer.records > 0, `${answer.code}, ${records} of type ${type}`);
  });
  // Connected, so that "port unreachable" becomes an error instead of a timeout.
  socket.connect(port, host, () => socket.send(question));
  return promise;
}

/** The probes of a config. */
export interface ConfiguredProbes extends Probes {
  /** Tries every probe once, in parallel; one without an answer within this time counts as unhealthy. */
  glance(ms: number): Promise<readonly ProbeResult[]>;
}

/**
 * The node's health checks. Each try opens a new connection: an old one keeps its conntrack entry and hides that new ones fail.
 * @param probes from the node's config; a bundle has none
 */
export function configuredProbes(
  probes: readonly ProbeConfig[],
  clock: Pick<Clock, 'sleep' | 'bootMs'>,
  run: RunGroup = runGroup,
): ConfiguredProbes {
  const once = async (probe: ProbeConfig): Promise<ProbeResult> => ({
    name: probe.name,
    ...(await tryOnce(probe, run)),
  });
  return {
    policies: probes.map(policyOf),
    intervalMs: Math.min(...probes.map(({ intervalSeconds }) => intervalSeconds * 1000), limits.probeIntervalMsMax),
    once: () => Promise.all(probes.map(once)),
    glance: (ms) => Promise.all(probes.map((probe) => within(ms, once(probe), { name: probe.name, ...noAnswer(ms) }))),
    untilVerdict: () => Promise.all(probes.map((probe) => judged(probe, () => once(probe), clock))),
  };
}

/** The answer of a probe, or another one after some time; a late answer is ignored. */
async function within<T>(ms: number, answer: Promise<T>, late: T): Promise<T> {
  const { promise, resolve } = Promise.withResolvers<T>();
  const timer = setTimeout(() => resolve(late), ms);
  try {
    return await Promise.race([answer, promise]);
  } finally {
    clearTimeout(timer);
  }
}

function policyOf({ name, service, attempts, failures }: ProbeConfig): ProbePolicy {
  return { name, service, window: attempts, failures: failures ?? attempts };
}

/**
 * Tries a probe until the rest of its window cannot change the verdict. Everything waits for it, endpoint updates too, so a late verdict is
 * replaced by the last try.
 */
async function judged(
  probe: ProbeConfig,
  once: () => Promise<ProbeResult>,
  clock: Pick<Clock, 'sleep' | 'bootMs'>,
): Promise<ProbeResult> {
  const endMs = clock.bootMs() + limits.baselineMsMax;
  const { window, failures } = policyOf(probe);
  let bad = 0;
  let last: ProbeResult | undefined;
  for (let tries = 1; ; tries++) {
    const result = await once();
    if (!result.healthy) {
      bad++;
      last = result;
    }
    if (bad >= failures)
      return last === undefined || window === 1 ? result : { ...last, seen: counted(last.seen, bad, tries) };
    if (window - tries + bad < failures) return { ...result, healthy: true };
    if (clock.bootMs() + probe.intervalSeconds * 1000 > endMs) return result;
    await clock.sleep(probe.intervalSeconds * 1000);
  }
}

function counted(seen: string, bad: number, tries: number): string {
  return `failed ${bad} of ${tries} times, the last: ${seen}`;
}

/** One try, which ends soon after its timeout. An error is an unhealthy answer, and does not end probation. */
async function tryOnce(probe: ProbeConfig, run: RunGroup): Promise<ProbeAnswer> {
  const timeoutMs = probe.timeoutSeconds * 1000;
  try {
    return await within(timeoutMs + limits.probeLateMs, tryKind(probe, timeoutMs, run), noAnswer(timeoutMs));
  } catch (error) {
    return { healthy: false, seen: messageOf(error) };
  }
}

const noAnswer = (ms: number): ProbeAnswer => ({ healthy: false, seen: `no answer within ${ms} ms` });

function tryKind(probe: ProbeConfig, timeoutMs: number, run: RunGroup): Promise<ProbeAnswer> {
  if ('http' in probe) return tryHttp(probe.http, timeoutMs);
  if ('tcp' in probe) return tryTcp(probe.tcp, timeoutMs);
  if ('dns' in probe) return tryDns(probe, timeoutMs);
  return tryCommand(probe.exec, timeoutMs, run);
}

/** Healthy: exit code 0. Otherwise the reason, and the output of the command. */
async function tryCommand([file, ...args]: readonly string[], timeoutMs: number, run: RunGroup): Promise<ProbeAnswer> {
  const ran = await run(file ?? '', args, timeoutMs);
  if (ran.exitCode === 0) return { healthy: true, seen: 'exit code 0' };
  const reason = ran.exitCode === undefined ? ran.why : `exit code ${ran.exitCode}`;
  return { healthy: false, seen: withExcerpt(reason, `${ran.stdout}\n${ran.stderr}`) };
}

/** Healthy: the connection is accepted. */
function tryTcp(address: string, timeoutMs: number): Promise<ProbeAnswer> {
  const { promise, resolve } = Promise.withResolvers<ProbeAnswer>();
  const socket = connect(hostAndPort(address));
  socket.setTimeout(timeoutMs, () => socket.destroy(new Error(`no answer within ${timeoutMs} ms`)));
  socket.on('connect', () => {
    resolve({ healthy: true, seen: 'connected' });
    socket.destroy();
  });
  socket.on('error', (error) => resolve({ healthy: false, seen: error.message }));
  return promise;
}

/** Healthy: a status from 200 to 399, as for the kubelet. Redirects are not followed; other answers are reported with their body. */
function tryHttp(url: string, timeoutMs: number): Promise<ProbeAnswer> {
  const { promise, resolve } = Promise.withResolvers<ProbeAnswer>();
  const get = url.startsWith('https:') ? secureGet() : getPlain;
  const request = get(url, { agent: false, headers: { 'user-agent': 'sluiced', connection: 'close' } }, (response) => {
    const status = response.statusCode ?? 0;
    if (status >= 200 && status < 400) {
      response.destroy();
      return resolve({ healthy: true, seen: `status ${status}` });
    }
    readSome(response, (body) => resolve({ healthy: false, seen: withExcerpt(`status ${status}`, body) }));
  });
  const timer = setTimeout(() => request.destroy(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  request.on('error', (error) => resolve({ healthy: false, seen: error.message }));
  request.on('close', () => clearTimeout(timer));
  return promise;
}

/** Loaded by the first probe that needs it: importing it parses all certificates that Node trusts, 3 MB of memory on each node. */
const secureGet = (): typeof getPlain => process.getBuiltinModule('node:https').get;

/** Reads the beginning of a body. The timeout of the request ends an endless one. */
function readSome(response: IncomingMessage, done: (text: string) => void): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  const finish = (): void => {
    done(Buffer.concat(chunks).toString('utf8'));
    response.destroy();
  };
  response.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= limits.probeBodyBytesMax) finish();
  });
  response.on('end', finish);
  response.on('error', finish);
}

/**
 * The beginning of a probe's output as one line of printable text, for logs, history and alarms: no answer of a server can break a line or
 * a terminal.
 * @returns empty for no output, else at most `limits.probeExcerptCharsMax` characters in quotes
 */
function excerpt(text: string): string {
  const plain = text
    .trim()
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/[^\x20-\x7e]/g, '?');
  if (plain === '') return '';
  const most = limits.probeExcerptCharsMax;
  return plain.length <= most ? `"${plain}"` : `"${plain.slice(0, most)}…"`;
}

/** Adds the output to a sentence. */
function withExcerpt(seen: string, text: string): string {
  const quoted = excerpt(text);
  return quoted === '' ? seen : `${seen}: ${quoted}`;
}
