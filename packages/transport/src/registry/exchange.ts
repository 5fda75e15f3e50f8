import { type ClientRequest, type IncomingHttpHeaders, request as plainRequest } from 'node:http';
import { request as secureRequest } from 'node:https';
import { agentFor, proxyFor } from '../proxy.ts';
import { type AddressCheck, checkedLookup, ForbiddenAddress, literalAddress } from './addresses.ts';
import { registryLimits } from './limits.ts';

/** One HTTP request, with its final headers. */
export interface RegistryRequest {
  readonly method: 'GET' | 'HEAD' | 'POST' | 'PUT';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array | string;
  /** Whether it may be retried; default: unless its method is POST. */
  readonly mayRepeat?: boolean;
  /** The limit of a successful response; a larger one is an error. */
  readonly bytesMax: number;
}

export interface RegistryResponse {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** The response was too large; a retry is useless. */
export class TooLarge extends Error {
  override readonly name = 'TooLarge';
}

/** The response comes too slowly. It is not requested again: the next one could be as slow. */
export class TooSlow extends Error {
  override readonly name = 'TooSlow';
}

/** What is done with the addresses that a request connects to. A proxy connects for itself, and resolves names itself. */
interface Addresses {
  readonly refuses?: AddressCheck;
  /** Receives the address of each connection. */
  readonly connected?: (address: string) => void;
}

type Limits = Readonly<
  Record<
    'transferTimeoutMs' | 'idleTimeoutMs' | 'answerTimeoutMs' | 'bytesPerSecondMin' | 'slowAfterMs' | 'refusalBytesMax',
    number
  >
>;

/**
 * Sends one request and reads its response. Redirects are returned, not followed.
 * @throws TooLarge, TooSlow, ForbiddenAddress, or the error of the network or of Node
 */
export function exchange(
  url: URL,
  { method, headers, body, bytesMax }: RegistryRequest,
  { refuses, connected }: Addresses = {},
  limits: Limits = registryLimits,
): Promise<RegistryResponse> {
  const { promise, resolve, reject } = Promise.withResolvers<RegistryResponse>();
  const literal = literalAddress(url);
  const why = literal === undefined ? undefined : refuses?.(literal);
  if (literal !== undefined && why !== undefined) return Promise.reject(new ForbiddenAddress(literal, why));
  const proxy = proxyFor(url.hostname, process.env, url.port);
  const options = {
    method,
    headers: { ...headers, ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }) },
    signal: AbortSignal.timeout(limits.transferTimeoutMs),
    timeout: limits.idleTimeoutMs,
    ...(refuses && proxy === undefined ? { lookup: checkedLookup(refuses) } : {}),
  };
  const agent = agentFor(proxy);
  const request =
    url.protocol === 'https:'
      ? secureRequest(url, { ...options, ...(agent ? { agent } : {}) })
      : plainRequest(url, { ...options, agent: false });
  const received = guardRate(request, limits);
  request.on('timeout', () => request.destroy(new Error(`no data for ${limits.idleTimeoutMs} ms`)));
  request.on('error', reject);
  request.on('close', () => agent?.destroy());
  if (proxy === undefined)
    request.on('socket', (socket) => socket.once('connect', () => connected?.(socket.remoteAddress ?? '')));
  request.on('response', (response) => {
    const status = response.statusCode ?? 0;
    const isWanted = status >= 200 && status < 300;
    const most = isWanted ? bytesMax : limits.refusalBytesMax;
    const chunks: Buffer[] = [];
    let length = 0;
    const end = (): void => resolve({ status, headers: response.headers, body: Buffer.concat(chunks) });
    response.on('data', (chunk: Buffer) => {
      received(chunk.length);
      length += chunk.length;
      if (length <= most) return void chunks.push(chunk);
      // Settle now, because the end of the response may already be queued. The start of an error response is enough.
      if (isWanted) reject(new TooLarge(`the response is larger than ${bytesMax} bytes`));
      else end();
      request.destroy();
    });
    response.on('error', reject);
    response.on('end', end);
  });
  request.end(body);
  return promise;
}

/**
 * Ends a request whose response drips: a byte now and then would hold it as long as `transferTimeoutMs`.
 * @returns to be called with the size of each part of the response
 */
function guardRate(request: ClientRequest, limits: Limits): (bytes: number) => void {
  let bytes = 0;
  let timer: NodeJS.Timeout | undefined;
  const late = `no response for ${limits.answerTimeoutMs} ms after the request`;
  request.once('finish', () => {
    timer ??= setTimeout(() => request.destroy(new TooSlow(late)), limits.answerTimeoutMs);
  });
  request.once('response', () => {
    clearTimeout(timer);
    const startMs = performance.now();
    timer = setInterval(() => {
      const ms = performance.now() - startMs;
      if (ms < limits.slowAfterMs || bytes * 1000 >= ms * limits.bytesPerSecondMin) return;
      request.destroy(new TooSlow(`the response has less than ${limits.bytesPerSecondMin} bytes per second`));
    }, limits.slowAfterMs / 10);
  });
  request.once('close', () => clearInterval(timer));
  return (more) => {
    bytes += more;
  };
}
