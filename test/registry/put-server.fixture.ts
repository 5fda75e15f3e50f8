import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A web server on loopback that keeps what is put there, as WebDAV does. */
export class PutServer {
  /** Path → bytes. */
  readonly files = new Map<string, Buffer>();
  /** Every request: method and path. */
  readonly seen: string[] = [];
  /** Answers in the place of the server where it returns true. */
  instead: (request: IncomingMessage, response: ServerResponse) => boolean = () => false;
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => void this.#serve(request, response));
  }

  static async open(): Promise<PutServer> {
    const server = new PutServer();
    await new Promise<void>((done) => server.#server.listen(0, '127.0.0.1', done));
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? '/';
    this.seen.push(`${request.method} ${path}`);
    if (this.instead(request, response)) return;
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const before = this.files.get(path);
    if (request.method === 'PUT') {
      this.files.set(path, Buffer.concat(chunks));
      response.writeHead(before === undefined ? 201 : 204).end();
    } else if (before === undefined) response.writeHead(404).end();
    else response.writeHead(200, { 'content-length': before.length }).end(before);
  }
}
