import type { ClientRequest, IncomingMessage } from 'node:http';
import { type RequestOptions, request } from 'node:https';
import type { Socket } from 'node:net';
import { gunzipSync } from 'node:zlib';
import type { Access, CredentialPatience } from './access.ts';
import { ClusterFailure } from './failure.ts';
import { clusterLimits } from './limits.ts';
import { sleep } from './sleep.ts';

// Requests of the client library have no timeout, no bound on the answer and no retry: client-node.test.ts, "request.ts".

/** The limits of a request; tests use smaller ones. */
export interface Patience extends CredentialPatience {
  readonly requestTimeoutMs: number;
  readonly backoffMs: number;
  readonly answerBytesMax: number;
  /** Told of each attempt that failed and is followed by another one. */
  readonly retrying?: (failure: ClusterFailure) => void;
}

export interface ApiResponse {
  readonly status: number;
  readonly body: string;
}

/**
 * GETs one path. Retries after a lost connection, a timeout, 429 and 5xx, and once with new credentials after 401.
 * @returns any other response, including a refusal
 * @throws ClusterFailure when all attempts fail, when the certificate is not trusted, or when the response is too large
 */
export async function get(access: Access, path: string, patience: Patience = clusterLimits): Promise<ApiResponse> {
  let isRenewed = false;
  for (let attempt = 1; ; attempt++) {
    const result = await sendOnce(urlOf(access, path), { method: 'GET' }, await access.options(patience), patience);
    if (!('lost' in result) && result.status === 401 && !isRenewed) {
      access.renew();
      isRenewed = true;
      continue;
    }
    if (!('lost' in result) && !isPassing(result.status)) return result;
    if ('lost' in result && result.isAboutTrust) throw untrusted(access, result.lost);
    const isLast = attempt === clusterLimits.attemptsMax || patience.signal?.aborted === true;
    if (isLast) throw unreachable(access, path, result);
    patience.retrying?.(unreachable(access, path, result));
    const pause = Math.min(patience.backoffMs * 2 ** (attempt - 1), clusterLimits.backoffMaxMs);
    // Jitter spreads the load of many clients; it does not affect the output.
    await sleep(pause * (0.5 + Math.random() / 2), patience.signal);
  }
}

/** The URL of a path. */
export function urlOf(access: Access, path: string): URL {
  return new URL(access.server.replace(/\/$/, '') + path);
}

function unreachable(access: Access, path: string, last: ApiResponse | LostConnection): ClusterFailure {
  const why = 'lost' in last ? last.lost : `the server answered ${last.status}`;
  return new ClusterFailure(
    'CLUSTER_UNREACHABLE',
    `Cannot read ${access.server}${path.replace(/\?.*/, '')}: ${why}`,
    access.isOfPod && 'lost' in last
      ? 'Without a kube-proxy the Service of the API server has no rules yet: set KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT of the pod to an address of its own'
      : 'Check the server in the kubeconfig, the network and the proxy',
  );
}

function untrusted(access: Access, why: string): ClusterFailure {
  return new ClusterFailure(
    'CLUSTER_UNTRUSTED',
    `Cannot trust ${access.server}: ${why}`,
    'Check the certificate authority in the kubeconfig, and whether the server renewed its certificate',
  );
}

const isPassing = (status: number): boolean => status === 429 || status >= 500;

interface LostConnection {
  readonly lost: string;
  /** A certificate error, for which a retry is useless. */
  readonly isAboutTrust: boolean;
}

/** The method and the body of a request. */
interface ApiRequest {
  readonly method: 'GET' | 'POST' | 'PUT';
  /** JSON. */
  readonly body?: string;
}

/**
 * Sends a request without retries: a lost write may have arrived.
 * @throws ClusterFailure without a response
 */
export async function sendOnly(
  access: Access,
  path: string,
  asked: ApiRequest,
  patience: Patience,
): Promise<ApiResponse> {
  const result = await sendOnce(urlOf(access, path), asked, await access.options(patience), patience);
  if (!('lost' in result)) return result;
  throw result.isAboutTrust ? untrusted(access, result.lost) : unreachable(access, path, result);
}

function sendOnce(
  url: URL,
  asked: ApiRequest,
  options: RequestOptions,
  patience: Patience,
): Promise<ApiResponse | LostConnection> {
  const late = AbortSignal.timeout(patience.requestTimeoutMs);
  const signal = patience.signal === undefined ? late : AbortSignal.any([late, patience.signal]);
  let forget = (): void => {};
  const answer = new Promise<ApiResponse | LostConnection>((resolve, reject) => {
    const lose = (error: Error): void =>
      resolve(
        late.aborted
          ? { lost: `no response within ${patience.requestTimeoutMs / 1000} s`, isAboutTrust: false }
          : { lost: error.message, isAboutTrust: isAboutTrust(error) },
      );
    forget = onAbort(signal, lose);
    const timeout = patience.requestTimeoutMs;
    const sent = startRequest(url, { ...options, method: asked.method, signal, timeout }, lose, (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > patience.answerBytesMax) {
          reject(tooLarge(url, patience.answerBytesMax));
          sent?.destroy();
        }
        chunks.push(chunk);
      });
      response.on('error', lose);
      response.on('end', () => {
        const body = unpacked(Buffer.concat(chunks), response, patience.answerBytesMax);
        if (typeof body === 'string') return resolve({ status: response.statusCode ?? 0, body });
        return body === undefined ? reject(tooLarge(url, patience.answerBytesMax)) : lose(body);
      });
    });
    sent?.setHeader('accept', 'application/json');
    // An API server compresses answers beyond 128 KiB: a page of a list takes a fifteenth of the bytes, and the server less time.
    sent?.setHeader('accept-encoding', 'gzip');
    if (asked.body !== undefined) sent?.setHeader('content-type', 'application/json');
    sent?.end(asked.body);
  });
  return answer.finally(forget);
}

/** @returns the text of an answer, why it cannot be unpacked, or undefined beyond the bound */
function unpacked(body: Buffer, { headers }: IncomingMessage, maxOutputLength: number): string | Error | undefined {
  try {
    return (headers['content-encoding'] === 'gzip' ? gunzipSync(body, { maxOutputLength }) : body).toString('utf8');
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE' ? undefined : (error as Error);
  }
}

/**
 * Starts a request. Invalid options are reported as its error: while a certificate and its key are renewed, the two files may not match.
 * @param options with `timeout`, in milliseconds: only this closes the connection to a proxy that opens no tunnel
 */
export function startRequest(
  url: URL,
  options: RequestOptions,
  failed: (error: Error) => void,
  answered: (response: IncomingMessage) => void,
): ClientRequest | undefined {
  try {
    return request(url, options, answered).on('error', failed).on('socket', boundConnecting);
  } catch (error) {
    failed(error instanceof Error ? error : new Error(String(error)));
    return undefined;
  }
}

/** Ends a socket that gets no connection: where nothing answers at all, the kernel tries for minutes. */
function boundConnecting(socket: Socket): void {
  if (!socket.connecting) return;
  const { connectTimeoutMs } = clusterLimits;
  const late = (): unknown => socket.destroy(new Error(`no connection within ${connectTimeoutMs / 1000} s`));
  const timer = setTimeout(late, connectTimeoutMs);
  for (const event of ['connect', 'close']) socket.once(event, () => clearTimeout(timer));
}

/** Calls back on an abort, because Node does not end a request without a socket, such as one whose tunnel is never opened. @returns removes the listener */
export function onAbort(signal: AbortSignal, then: (error: Error) => void): () => void {
  const given = (): void => then(new Error('cancelled'));
  if (signal.aborted) given();
  else signal.addEventListener('abort', given, { once: true });
  return () => signal.removeEventListener('abort', given);
}

function tooLarge(url: URL, max: number): ClusterFailure {
  return new ClusterFailure(
    'INPUT_TOO_LARGE',
    `Cannot read ${url.origin}${url.pathname}: its response is larger than ${max} bytes`,
    'Check what answers there: responses of an API server are smaller',
  );
}

/** Whether an error has one of Node's and OpenSSL's codes for certificates. */
export function isAboutTrust(error: Error): boolean {
  const code = 'code' in error ? String(error.code) : '';
  return /^(CERT_|ERR_TLS|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|ERR_SSL)/.test(code);
}
