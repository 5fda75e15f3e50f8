import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { KeyPair } from '../cluster/certificates.fixture.ts';

/** Answers in the place of a server where it returns true. */
export type Instead = (request: IncomingMessage, response: ServerResponse) => boolean;

/** What may differ between servers of one kind. */
export interface LoopbackNature {
  /** Its key and certificate, both as PEM; plain HTTP without them. */
  readonly identity?: KeyPair | undefined;
  readonly instead?: Instead;
}

/** A server of HTTP on 127.0.0.1, in this process. */
export abstract class LoopbackServer {
  /** Every request, when it comes: method and path, with `+auth` when it had credentials. */
  readonly seen: string[] = [];
  /** Every answer that was sent to its end, as in `GET /index.json?x=1 +auth 200`. */
  readonly answered: string[] = [];
  instead: Instead | undefined;
  readonly #sockets: Socket[] = [];
  readonly #server: Server;
  readonly #scheme: string;

  protected constructor({ identity, instead }: LoopbackNature) {
    const serve = (request: IncomingMessage, response: ServerResponse): void => {
      const auth = request.headers.authorization === undefined ? '' : ' +auth';
      const { method, url = '/' } = request;
      this.seen.push(`${method} ${new URL(url, 'http://x').pathname}${auth}`);
      response.on('finish', () => this.answered.push(`${method} ${url}${auth} ${response.statusCode}`));
      if (this.instead?.(request, response) !== true) void this.serve(request, response);
    };
    this.instead = instead;
    this.#scheme = identity ? 'https' : 'http';
    this.#server = identity
      ? createSecureServer({ key: identity.key, cert: identity.certificate }, serve)
      : createServer(serve);
    this.#server.on('connection', (socket) => this.#sockets.push(socket));
  }

  protected abstract serve(request: IncomingMessage, response: ServerResponse): Promise<void> | void;

  /** @returns itself, once it takes connections */
  protected async listening(): Promise<this> {
    await new Promise<void>((done) => this.#server.listen(0, '127.0.0.1', done));
    return this;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get host(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** Without a slash at its end. */
  get url(): string {
    return `${this.#scheme}://${this.host}`;
  }

  /** Bytes that it has sent, with headers. */
  get bytesSent(): number {
    return this.#sockets.reduce((sum, { bytesWritten }) => sum + bytesWritten, 0);
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
