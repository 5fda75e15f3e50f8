import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** A Git repository on loopback, as a server of Git repositories has it: smart HTTP by `git http-backend`. */
export class Repository {
  readonly #dir = mkdtempSync(join(tmpdir(), 'sluice-rules-'));
  readonly #server: Server;
  readonly folder = join(this.#dir, 'work');

  private constructor() {
    mkdirSync(this.folder);
    mkdirSync(join(this.#dir, 'served/shop'), { recursive: true });
    const bare = join(this.#dir, 'served/shop/rules.git');
    this.git('init', '-q', '-b', 'main', `--separate-git-dir=${bare}`);
    this.#server = createServer((request, response) => answer(join(this.#dir, 'served'), request, response));
  }

  /** @param files path → text */
  static async open(files: Readonly<Record<string, string>>): Promise<Repository> {
    const repository = new Repository();
    await new Promise<void>((resolve) => repository.#server.listen(0, '127.0.0.1', resolve));
    repository.commit(files);
    return repository;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/shop/rules.git`;
  }

  /**
   * Commits changed files.
   * @param files path → text; undefined removes it
   * @returns the commit
   */
  commit(files: Readonly<Record<string, string | undefined>>): string {
    for (const [path, text] of Object.entries(files)) {
      const file = join(this.folder, path);
      mkdirSync(dirname(file), { recursive: true });
      if (text === undefined) rmSync(file, { force: true });
      else writeFileSync(file, text);
    }
    this.git('add', '-A');
    this.git('-c', 'user.name=test', '-c', 'user.email=test@example.com', 'commit', '--allow-empty', '-qm', 'change');
    return this.git('rev-parse', 'HEAD').trim();
  }

  git(...args: readonly string[]): string {
    return execFileSync('git', args, { cwd: this.folder, encoding: 'utf8' });
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    rmSync(this.#dir, { recursive: true });
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
