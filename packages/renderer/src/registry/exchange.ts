import { type IncomingHttpHeaders, request as plainRequest } from 'node:http';
import { request as secureRequest } from 'node:https';
import { agentFor, proxyFor } from '../cluster/proxy.ts';
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

/**
 * Sends one request and reads its response. Redirects are returned, not followed.
 * @throws TooLarge, or the error of the network or of Node
 */
export function exchange(url: URL, { method, headers, body, bytesMax }: RegistryRequest): Promise<RegistryResponse> {
  const { promise, resolve, reject } = Promise.withResolvers<RegistryResponse>();
  const options = {
    method,
    headers: { ...headers, ...(body === undefined ? {} : { 'content-length': Buffer.byteLength(body) }) },
    signal: AbortSignal.timeout(registryLimits.transferTimeoutMs),
    timeout: registryLimits.idleTimeoutMs,
  };
  const agent = agentFor(proxyFor(url.hostname, process.env, url.port));
  const request =
    url.protocol === 'https:'
      ? secureRequest(url, { ...options, ...(agent ? { agent } : {}) })
      : plainRequest(url, { ...options, agent: false });
  request.on('timeout', () => request.destroy(new Error(`no data for ${registryLimits.idleTimeoutMs} ms`)));
  request.on('error', reject);
  request.on('close', () => agent?.destroy());
  request.on('response', (response) => {
    const status = response.statusCode ?? 0;
    const isWanted = status >= 200 && status < 300;
    const most = isWanted ? bytesMax : registryLimits.refusalBytesMax;
    const chunks: Buffer[] = [];
    let length = 0;
    const end = (): void => resolve({ status, headers: response.headers, body: Buffer.concat(chunks) });
    response.on('data', (chunk: Buffer) => {
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
