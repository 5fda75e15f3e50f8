import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { eventLimits, eventsPath, eventsType } from '@sluice/transport/content/events.ts';
import { indexFile, type LayoutReference } from '@sluice/transport/content/layout.ts';
import { Blobs } from './blobs.ts';
import { Followers } from './followers.ts';
import { type IdentityFiles, readIdentity } from './identity.ts';
import { type IndexFile, readIndexFile } from './index-file.ts';
import { serveLimits } from './limits.ts';
import { listening } from './listening.ts';

/** What the server tells of itself. */
export interface ServeReport {
  /** @param count of open streams of events */
  followers(count: number): void;
  /** @param why certificates or the layout cannot be read; undefined: they can. What was read before is served on */
  failed(why: string | undefined): void;
}

/**
 * The server of `sluice watch --serve`: the files of an image layout, and a stream that tells each change of its `index.json`. Read-only: no
 * request changes anything, and of the disk nothing is read but `index.json` and blobs by their digests.
 */
export class ReleaseServer {
  readonly #layout: LayoutReference;
  readonly #blobs: Blobs;
  readonly #identity: IdentityFiles;
  readonly #report: ServeReport;
  readonly #followers = new Followers(() => performance.now());
  readonly #server: Server;
  /** Requests of a connection without a whole answer. */
  readonly #unanswered = new WeakMap<Socket, number>();
  readonly #timer: NodeJS.Timeout;
  /** Why this process serves nothing, in words; undefined: it serves. */
  #refusal: string | undefined;
  #index: IndexFile | undefined;
  /** The certificates that it shows now. Setting them again would end the sessions of TLS that clients resume. */
  #shown: string;

  private constructor(layout: LayoutReference, identity: IdentityFiles, report: ServeReport) {
    this.#layout = layout;
    this.#blobs = new Blobs(layout);
    this.#identity = identity;
    this.#report = report;
    this.#refusal = 'it has published no release yet';
    const shown = readIdentity(identity);
    this.#shown = JSON.stringify(shown);
    const { connectionsMax, headerBytesMax, headersTimeoutMs, keepAliveMs } = serveLimits;
    this.#server = createServer(
      {
        ...shown,
        requestCert: identity.clientAuthorities !== undefined,
        maxHeaderSize: headerBytesMax,
        handshakeTimeout: headersTimeoutMs,
        headersTimeout: headersTimeoutMs,
        requestTimeout: headersTimeoutMs,
        keepAliveTimeout: keepAliveMs,
        connectionsCheckingInterval: 1_000,
      },
      (request, response) =>
        void this.#answer(request, response).catch((error: NodeJS.ErrnoException) => {
          // Not for a client that is gone.
          if (error.path !== undefined) this.#report.failed(error.message);
          response.destroy();
        }),
    );
    this.#server.maxConnections = connectionsMax;
    this.#timer = setInterval(() => this.#beat(), eventLimits.heartbeatMs).unref();
  }

  /**
   * Listens, and answers 503 until `serve`.
   * @param address such as `0.0.0.0:9443`
   * @throws Stopped (`LISTEN_FAILED`, `INPUT_UNREADABLE`)
   */
  static async open(
    address: string,
    layout: LayoutReference,
    identity: IdentityFiles,
    report: ServeReport,
  ): Promise<ReleaseServer> {
    const self = new ReleaseServer(layout, identity, report);
    await listening(self.#server, address, 'releases', '--serve');
    return self;
  }

  get port(): number {
    return (this.#server.address() as { readonly port: number }).port;
  }

  /** The layout has the newest release of the cluster: serves it, and tells followers of what is new in it. */
  serve(): void {
    this.#refusal = undefined;
    this.#look();
  }

  /** Serves nothing any more: followers go elsewhere. @param why in words, for them */
  refuse(why: string): void {
    this.#refusal = why;
    this.#followers.end();
  }

  close(): void {
    clearInterval(this.#timer);
    this.refuse('it ends');
    this.#server.close();
    this.#server.closeAllConnections();
  }

  /** Certificates are renewed, and others may add signatures to the layout. */
  #beat(): void {
    this.#followers.beat();
    this.#report.followers(this.#followers.count);
    this.#look();
  }

  #look(): void {
    try {
      const identity = readIdentity(this.#identity);
      const text = JSON.stringify(identity);
      if (text !== this.#shown) this.#server.setSecureContext(identity);
      this.#shown = text;
      const index = readIndexFile(this.#layout);
      const isNew = index !== undefined && index.etag !== this.#index?.etag;
      this.#index = index;
      if (isNew && this.#refusal === undefined) this.#followers.tell(index.event);
      this.#report.failed(undefined);
    } catch (error) {
      this.#report.failed((error as Error).message);
    }
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method, url = '' } = request;
    if (!this.#waits(request, response)) return void request.socket.destroy();
    if (method !== 'GET' && method !== 'HEAD') return refuse(response, 405, 'use GET');
    if (this.#refusal !== undefined) {
      // On another connection a load balancer may choose another process.
      response.setHeader('retry-after', serveLimits.retrySeconds).setHeader('connection', 'close');
      return refuse(response, 503, `this process does not serve releases: ${this.#refusal}`);
    }
    if (url === `/${eventsPath}`) return this.#follow(request, response);
    const late = setTimeout(() => response.destroy(), serveLimits.transferTimeoutMs);
    response.on('close', () => clearTimeout(late));
    if (url === `/${indexFile}`) return this.#answerIndex(request, response);
    const [, hex] = /^\/blobs\/sha256\/([0-9a-f]{64})$/.exec(url) ?? [];
    if (hex !== undefined) return this.#answerBlob(`sha256:${hex}`, request, response);
    refuse(response, 404, `use /${indexFile}, /blobs/sha256/DIGEST or /${eventsPath}`);
  }

  /** Whether a client waits for answers before it asks for more: each of them holds a stream or an open file. */
  #waits({ socket }: IncomingMessage, response: ServerResponse): boolean {
    const unanswered = (this.#unanswered.get(socket) ?? 0) + 1;
    this.#unanswered.set(socket, unanswered);
    response.on('close', () => this.#unanswered.set(socket, (this.#unanswered.get(socket) ?? 1) - 1));
    return unanswered <= serveLimits.unansweredMax;
  }

  #follow({ method }: IncomingMessage, response: ServerResponse): void {
    response.writeHead(200, { 'content-type': eventsType, 'cache-control': 'no-store' });
    if (method === 'HEAD') return void response.end();
    response.flushHeaders();
    this.#followers.add(response, this.#index?.event);
    this.#report.followers(this.#followers.count);
    response.on('close', () => this.#report.followers(this.#followers.count));
  }

  #answerIndex(request: IncomingMessage, response: ServerResponse): void {
    if (this.#index === undefined) return refuse(response, 404, 'there is no release yet');
    const { body, etag } = this.#index;
    response.setHeader('cache-control', 'no-cache').setHeader('content-type', 'application/json');
    if (!isKnown(etag, request, response)) response.setHeader('content-length', body.length).end(body);
  }

  /** Content by its digest never changes: caches may keep it. */
  async #answerBlob(digest: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const blob = await this.#blobs.get(digest);
    if (blob === undefined) return refuse(response, 404, 'there is no such blob');
    await using file = 'file' in blob ? blob.file : undefined;
    response.setHeader('cache-control', 'max-age=31536000, immutable');
    response.setHeader('content-type', 'application/octet-stream');
    if (isKnown(`"${digest}"`, request, response)) return;
    response.setHeader('content-length', 'bytes' in blob ? blob.bytes.length : blob.size);
    if (request.method === 'HEAD') return void response.end();
    if (file) await pipeline(file.createReadStream({ autoClose: false }), response);
    else if ('bytes' in blob) response.end(blob.bytes);
  }
}

/** Names the content, and answers that the client has it. @returns whether it did */
function isKnown(etag: string, { headers }: IncomingMessage, response: ServerResponse): boolean {
  response.setHeader('etag', etag);
  // RFC 9110, section 13.1.2: a list, compared weakly; a cache that packed the answer made its `ETag` a weak one.
  const known = headers['if-none-match']?.split(',').map((one) => one.trim().replace(/^W\//, '')) ?? [];
  if (!known.includes(etag)) return false;
  response.writeHead(304).end();
  return true;
}

function refuse(response: ServerResponse, status: number, why: string): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' }).end(`${why}\n`);
}
