import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { join, normalize } from 'node:path';

/** The properties of a web server. */
export interface StaticNature {
  /** Its key and certificate, both as PEM; plain HTTP without them. */
  readonly identity?: { readonly key: string; readonly certificate: string };
  /** Answers in the place of the server where it returns true. */
  readonly instead?: (request: IncomingMessage, response: ServerResponse) => boolean;
}

/** A web server of static files on loopback, with ETags and ranges. */
export class StaticServer {
  /** Every request with its status: `GET /index.json 200`. */
  readonly seen: string[] = [];
  readonly #sockets: Socket[] = [];
  readonly #server: Server;
  readonly #dir: string;
  readonly #nature: StaticNature;

  private constructor(dir: string, nature: StaticNature) {
    this.#dir = dir;
    this.#nature = nature;
    const serve = (request: IncomingMessage, response: ServerResponse): void => this.#serve(request, response);
    const { key, certificate: cert } = nature.identity ?? {};
    this.#server = key && cert ? createSecureServer({ key, cert }, serve) : createServer(serve);
  }

  static async open(dir: string, nature: StaticNature = {}): Promise<StaticServer> {
    const server = new StaticServer(dir, nature);
    server.#server.on('connection', (socket) => server.#sockets.push(socket));
    await new Promise<void>((done) => server.#server.listen(0, '127.0.0.1', done));
    return server;
  }

  /** Without a slash at its end. */
  get url(): string {
    const { port } = this.#server.address() as AddressInfo;
    return `${this.#nature.identity === undefined ? 'http' : 'https'}://127.0.0.1:${port}`;
  }

  /** Bytes that it has sent, with headers. */
  get bytesSent(): number {
    return this.#sockets.reduce((sum, { bytesWritten }) => sum + bytesWritten, 0);
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    const path = normalize(new URL(request.url ?? '/', 'http://x').pathname);
    response.on('close', () => this.seen.push(`${request.method} ${path} ${response.statusCode}`));
    if (this.#nature.instead?.(request, response) === true) return;
    const file = join(this.#dir, path);
    if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true) return void response.writeHead(404).end();
    const bytes = readFileSync(file);
    const etag = `"${createHash('sha256').update(bytes).digest('hex')}"`;
    if (request.headers['if-none-match'] === etag) return void response.writeHead(304, { etag }).end();
    const [, start] = /^bytes=(\d+)-$/.exec(request.headers.range ?? '') ?? [];
    if (start === undefined) return void response.writeHead(200, { etag, 'content-length': bytes.length }).end(bytes);
    const range = `bytes ${start}-${bytes.length - 1}/${bytes.length}`;
    response.writeHead(206, { etag, 'content-range': range }).end(bytes.subarray(Number(start)));
  }
}
