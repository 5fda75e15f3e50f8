import { spawn } from 'node:child_process';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type LoopbackNature, LoopbackServer } from './loopback.ts';

/** What may differ between servers of Git repositories over HTTP. */
export interface GitHttpOptions extends LoopbackNature {
  /** The only `user:password` that it accepts; without it access is open. */
  readonly password?: string;
}

/** The Git repositories below a folder on loopback, over smart HTTP by `git http-backend`. */
export class GitHttpServer extends LoopbackServer {
  readonly #root: string;
  readonly #expected: string | undefined;

  private constructor(root: string, options: GitHttpOptions) {
    super(options);
    const { password } = options;
    this.#root = root;
    this.#expected = password === undefined ? undefined : `Basic ${Buffer.from(password).toString('base64')}`;
  }

  static open(root: string, options: GitHttpOptions = {}): Promise<GitHttpServer> {
    return new GitHttpServer(root, options).listening();
  }

  protected override serve(request: IncomingMessage, response: ServerResponse): void {
    if (this.#expected === undefined || request.headers.authorization === this.#expected)
      answer(this.#root, request, response);
    else response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end();
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
