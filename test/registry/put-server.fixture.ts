import type { IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { LoopbackServer } from '../servers/loopback.ts';

/** A web server on loopback that keeps what is put there, as WebDAV does. */
export class PutServer extends LoopbackServer {
  /** Path → bytes. */
  readonly files = new Map<string, Buffer>();

  static open(): Promise<PutServer> {
    return new PutServer({}).listening();
  }

  protected override async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? '/';
    const body = await buffer(request);
    const before = this.files.get(path);
    if (request.method === 'PUT') {
      this.files.set(path, body);
      response.writeHead(before === undefined ? 201 : 204).end();
    } else if (before === undefined) response.writeHead(404).end();
    else response.writeHead(200, { 'content-length': before.length }).end(before);
  }
}
