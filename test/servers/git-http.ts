import { spawn } from 'node:child_process';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { KeyPair } from '../cluster/certificates.fixture.ts';

/** What may differ between servers of Git repositories over HTTP. */
export interface GitHttpOptions {
  /** Its key and certificate; plain HTTP without them. */
  readonly identity?: KeyPair;
  /** The only `user:password` that it accepts; without it access is open. */
  readonly password?: string;
}

/** The Git repositories below a folder on loopback, over smart HTTP by `git http-backend`. */
export class GitHttpServer {
  readonly #server: Server;
  /** Each request: method and path. */
  readonly seen: string[] = [];

  private constructor(root: string, { identity, password }: GitHttpOptions) {
    const expected = password === undefined ? undefined : `Basic ${Buffer.from(password).toString('base64')}`;
    const serve = (request: IncomingMessage, response: ServerResponse): void => {
      this.seen.push(`${request.method} ${request.url}`);
      if (expected === undefined || request.headers.authorization === expected) answer(root, request, response);
      else response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end();
    };
    this.#server = identity
      ? createSecureServer({ key: identity.key, cert: identity.certificate }, serve)
      : createServer(serve);
  }

  static async open(root: string, options: GitHttpOptions = {}): Promise<GitHttpServer> {
    const one = new GitHttpServer(root, options);
    await new Promise<void>((resolve) => one.#server.listen(0, '127.0.0.1', resolve));
    return one;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** https://git-scm.com/docs/git-http-backend: a program of the Common Gateway Interface. */
function answer(root: string, request: IncomingMessage, response: ServerResponse): void {
  const { pathname, search } = new URL(request.url ?? '/', 'http://server');
  const { 'content-type': type, 'content-encoding': encoding, 'git-protocol': protocol } = request.headers;
  const env = {
    PATH: process.env['PATH'],
    GIT_PROJECT_ROOT: root,
    GIT_HTTP_EXPORT_ALL: '1',
    REQUEST_METHOD: request.method,
    PATH_INFO: pathname,
    QUERY_STRING: search.slice(1),
    ...(type !== undefined && { CONTENT_TYPE: type }),
    ...(encoding !== undefined && { HTTP_CONTENT_ENCODING: encoding }),
    ...(protocol !== undefined && { GIT_PROTOCOL: String(protocol) }),
  };
  const child = spawn('git', ['http-backend'], { env, stdio: ['pipe', 'pipe', 'ignore'] });
  const chunks: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  child.stdin.on('error', () => {});
  request.pipe(child.stdin);
  child.on('close', () => {
    const all = Buffer.concat(chunks);
    const end = all.indexOf('\r\n\r\n');
    const lines = all.subarray(0, Math.max(end, 0)).toString('utf8').split('\r\n');
    const headers = Object.fromEntries(lines.map((line) => line.split(': ', 2) as [string, string]));
    response.writeHead(Number.parseInt(headers['Status'] ?? '200', 10), headers).end(all.subarray(end + 4));
  });
}
