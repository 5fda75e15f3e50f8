import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request as plainRequest } from 'node:http';
import { request as secureRequest } from 'node:https';
import { type AddressCheck, checkedLookup, ForbiddenAddress, literalAddress } from './addresses.ts';
import { Agents } from './agents.ts';
import type { Budget } from './budget.ts';
import { registryLimits } from './limits.ts';

/** One HTTP request, with its final headers. */
export interface HttpRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
  /** Whether it may be retried; default: unless its method is POST. */
  readonly mayRepeat?: boolean;
  /** The limit of a successful response; a larger one is an error. */
  readonly bytesMax: number;
}

export interface HttpResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** The response was too large; a retry is useless. */
export class TooLarge extends Error {
  override readonly name = 'TooLarge';

  constructor(bytesMax: number) {
    super(`the response is larger than ${bytesMax} bytes`);
  }
}

/** A body ended before its end. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';
  /** What came of it. */
  readonly start: HttpResponse;

  constructor(start: HttpResponse, { message }: Error) {
    super(message);
    this.start = start;
  }
}

/** The response comes too slowly. It is not requested again: the next one could be as slow. */
export class TooSlow extends Error {
  override readonly name = 'TooSlow';
}

/** How a request connects. A proxy connects for itself, and resolves names itself. */
interface Connection {
  readonly refuses?: AddressCheck;
  /** Receives the address of each new connection. */
  readonly connected?: (address: string) => void;
  /** Default: connections for this request alone, by the proxy of the environment. */
  readonly agents?: Agents;
  readonly budget?: Budget;
}

type Limits = Readonly<
  Record<
    'transferTimeoutMs' | 'idleTimeoutMs' | 'answerTimeoutMs' | 'bytesPerSecondMin' | 'slowAfterMs' | 'refusalBytesMax',
    number
  >
>;

/**
 * Sends one request and reads its response. Redirects are returned, not followed.
 * @throws TooLarge, TooSlow, OverBudget, ForbiddenAddress, Interrupted, or the error of the network or of Node
 */
export async function exchange(
  url: URL,
  asked: HttpRequest,
  connection: Connection = {},
  limits: Limits = registryLimits,
): Promise<HttpResponse> {
  const request = begin(url, asked, connection, limits, AbortSignal.timeout(limits.transferTimeoutMs));
  const answer = read(request, asked.bytesMax, limits, connection.budget);
  request.end(asked.body);
  return answer;
}

/** A response whose body is still to come. */
export interface OpenResponse extends Omit<HttpResponse, 'body'> {
  readonly body: IncomingMessage;
}

/**
 * Sends one request, and waits for the headers of its response alone. Its body ends with an error where nothing comes for `idleTimeoutMs`.
 * @throws TooSlow, ForbiddenAddress, or the error of the network or of Node
 */
export async function openResponse(
  url: URL,
  asked: Omit<HttpRequest, 'bytesMax' | 'body'>,
  connection: Connection = {},
  limits: Limits = registryLimits,
): Promise<OpenResponse> {
  const request = begin(url, asked, connection, limits);
  const { promise, resolve, reject } = Promise.withResolvers<OpenResponse>();
  const late = new TooSlow(`no response for ${limits.answerTimeoutMs} ms after the request`);
  const timer = setTimeout(() => request.destroy(late), limits.answerTimeoutMs);
  request.on('timeout', () => request.destroy(new Error(`no data for ${limits.idleTimeoutMs} ms`)));
  // Stays registered: an error after the headers is one of the body, too.
  request.on('error', reject);
  request.on('response', (body) => resolve({ status: body.statusCode ?? 0, headers: body.headers, body }));
  request.end();
  return promise.finally(() => clearTimeout(timer));
}

/** @throws ForbiddenAddress, or the error of Node */
function begin(
  url: URL,
  { method, headers, body }: Omit<HttpRequest, 'bytesMax'>,
  connection: Connection,
  limits: Limits,
  late?: AbortSignal,
): ClientRequest {
  const { refuses, connected, budget } = connection;
  const literal = literalAddress(url);
  const why = literal === undefined ? undefined : refuses?.(literal);
  if (literal !== undefined && why !== undefined) throw new ForbiddenAddress(literal, why);
  const agents = connection.agents ?? new Agents({});
  const { agent, isProxied } = agents.for(url);
  const signals = [late, budget?.signal].filter((one) => one !== undefined);
  const request = (url.protocol === 'https:' ? secureRequest : plainRequest)(url, {
    method,
    headers: { ...headers, ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }) },
    ...(signals.length > 0 && { signal: AbortSignal.any(signals) }),
    timeout: limits.idleTimeoutMs,
    agent,
    ...(refuses && !isProxied ? { lookup: checkedLookup(refuses) } : {}),
  });
  if (connection.agents === undefined) request.on('close', () => agents.close());
  if (!isProxied)
    request.on('socket', (socket) => {
      if (socket.connecting) socket.once('connect', () => connected?.(socket.remoteAddress ?? ''));
    });
  return request;
}

/** Reads the response to a request, at the rate of the budget. */
function read(
  request: ClientRequest,
  bytesMax: number,
  limits: Limits,
  budget: Budget | undefined,
): Promise<HttpResponse> {
  const { promise, resolve, reject } = Promise.withResolvers<HttpResponse>();
  const rate = guardRate(request, limits);
  request.on('timeout', () => request.destroy(new Error(`no data for ${limits.idleTimeoutMs} ms`)));
  request.on('error', reject);
  request.on('response', (response) => {
    const status = response.statusCode ?? 0;
    const isWanted = status >= 200 && status < 300;
    const most = isWanted ? bytesMax : limits.refusalBytesMax;
    const chunks: Buffer[] = [];
    let length = 0;
    const sofar = (): HttpResponse => ({ status, headers: response.headers, body: Buffer.concat(chunks) });
    const fail = (error: Error): void => {
      const isBody = request.method === 'GET' && isWanted && length > 0 && !(error instanceof TooSlow);
      reject(isBody ? new Interrupted(sofar(), error) : error);
    };
    request.off('error', reject).on('error', fail);
    response.on('data', (chunk: Buffer) => {
      length += chunk.length;
      try {
        const waitMs = budget?.spend(chunk.length) ?? 0;
        rate.received(chunk.length, waitMs);
        if (waitMs >= pauseMsMin) pause(response, waitMs);
      } catch (error) {
        reject(error);
        return void request.destroy();
      }
      if (length <= most) return void chunks.push(chunk);
      // Settle now, because the end of the response may already be queued. The start of an error response is enough.
      if (isWanted) reject(new TooLarge(bytesMax));
      else resolve(sofar());
      request.destroy();
    });
    response.on('error', fail);
    response.on('end', () => resolve(sofar()));
  });
  return promise;
}

/** Shorter pauses are made up for by the next one. */
const pauseMsMin = 20;

function pause(response: IncomingMessage, ms: number): void {
  response.pause();
  setTimeout(() => response.resume(), ms);
}

interface Rate {
  /** @param waitMs how long we do not read after it */
  received(bytes: number, waitMs: number): void;
}

/** Ends a request whose response drips: a byte now and then would hold it as long as `transferTimeoutMs`. */
function guardRate(request: ClientRequest, limits: Limits): Rate {
  let bytes = 0;
  let pausedMs = 0;
  let timer: NodeJS.Timeout | undefined;
  const late = `no response for ${limits.answerTimeoutMs} ms after the request`;
  request.once('finish', () => {
    timer ??= setTimeout(() => request.destroy(new TooSlow(late)), limits.answerTimeoutMs);
  });
  request.once('response', () => {
    clearTimeout(timer);
    const startMs = performance.now();
    timer = setInterval(() => {
      const ms = performance.now() - startMs - pausedMs;
      if (ms < limits.slowAfterMs || bytes * 1000 >= ms * limits.bytesPerSecondMin) return;
      request.destroy(new TooSlow(`the response has less than ${limits.bytesPerSecondMin} bytes per second`));
    }, limits.slowAfterMs / 10);
  });
  request.once('close', () => clearInterval(timer));
  return {
    received(more, waitMs) {
      bytes += more;
      pausedMs += waitMs >= pauseMsMin ? waitMs : 0;
    },
  };
}
