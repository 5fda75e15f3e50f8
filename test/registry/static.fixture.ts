import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join, normalize } from 'node:path';
import { type LoopbackNature, LoopbackServer } from '../servers/loopback.ts';

/** A web server of static files on loopback, with ETags and ranges. */
export class StaticServer extends LoopbackServer {
  readonly #dir: string;

  private constructor(dir: string, nature: LoopbackNature) {
    super(nature);
    this.#dir = dir;
  }

  static open(dir: string, nature: LoopbackNature = {}): Promise<StaticServer> {
    return new StaticServer(dir, nature).listening();
  }

  protected override serve({ headers, url = '/' }: IncomingMessage, response: ServerResponse): void {
    const file = join(this.#dir, normalize(new URL(url, 'http://x').pathname));
    if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true) return void response.writeHead(404).end();
    const bytes = readFileSync(file);
    const etag = `"${createHash('sha256').update(bytes).digest('hex')}"`;
    if (headers['if-none-match'] === etag) return void response.writeHead(304, { etag }).end();
    const [, start] = /^bytes=(\d+)-$/.exec(headers.range ?? '') ?? [];
    if (start === undefined) return void response.writeHead(200, { etag, 'content-length': bytes.length }).end(bytes);
    const range = `bytes ${start}-${bytes.length - 1}/${bytes.length}`;
    response.writeHead(206, { etag, 'content-range': range }).end(bytes.subarray(Number(start)));
  }
}
