import { execFileSync, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { fileDigest, isProblem, readRelease } from '@sluice/bundle';
import { packRelease } from '../../packages/transport/src/content/pack.ts';
import { subjectKey, tagKey } from '../../packages/transport/src/registry/artifact.ts';
import { RegistryClient } from '../../packages/transport/src/registry/client.ts';
import { pushRelease } from '../../packages/transport/src/content/push.ts';
import { readReference } from '../../packages/transport/src/registry/reference.ts';
import type { KeyPair } from '../cluster/certificates.fixture.ts';

/** Servers of releases, on loopback, and how releases get there. */

/** Answers in the place of a server where it returns true. */
export type Instead = (request: IncomingMessage, response: ServerResponse) => boolean;

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** A server of HTTP, or of HTTPS with an identity. */
export class LoopbackServer {
  /** Every request: method and path, with `+auth` when it had credentials, and the status of its answer. */
  readonly seen: string[] = [];
  /** Of all bodies that were sent. */
  bytes = 0;
  instead: Instead | undefined;
  readonly #server: Server;
  readonly #scheme: string;

  private constructor(answer: Answer, identity?: KeyPair) {
    const serve: Answer = (request, response) => {
      const auth = request.headers.authorization === undefined ? '' : ' +auth';
      response.on('finish', () => this.seen.push(`${request.method} ${request.url}${auth} ${response.statusCode}`));
      if (this.instead?.(request, response) !== true) answer(request, response);
    };
    this.#scheme = identity ? 'https' : 'http';
    this.#server = identity
      ? createSecureServer({ key: identity.key, cert: identity.certificate }, serve)
      : createServer(serve);
  }

  static async open(answer: (server: LoopbackServer) => Answer, identity?: KeyPair): Promise<LoopbackServer> {
    const server: LoopbackServer = new LoopbackServer((request, response) => own(request, response), identity);
    const own = answer(server);
    await new Promise<void>((done) => server.#server.listen(0, '127.0.0.1', done));
    return server;
  }

  get url(): string {
    return `${this.#scheme}://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

/** The files of a directory, with ETag. */
export const staticFiles = (dir: string, identity?: KeyPair): Promise<LoopbackServer> =>
  LoopbackServer.open(
    (server) => (request, response) => {
      const path = join(dir, decodeURIComponent(new URL(request.url ?? '/', 'http://x').pathname));
      if (!existsSync(path) || !statSync(path).isFile()) return void response.writeHead(404).end();
      const bytes = readFileSync(path);
      const etag = `"${fileDigest(bytes).slice(0, 16)}"`;
      if (request.headers['if-none-match'] === etag) return void response.writeHead(304, { etag }).end();
      server.bytes += bytes.length;
      response.writeHead(200, { etag, 'content-length': bytes.length }).end(bytes);
    },
    identity,
  );

/** Writes a release as an OCI image layout. */
export function writeLayout(dir: string, release: string, tag: string): void {
  const files = filesIn(release);
  const { index, manifests, blobs, referrers } = packRelease(releaseIn(files), files);
  const all = [index, ...manifests, ...blobs, ...referrers.flatMap((one) => [one.manifest, ...one.blobs])];
  for (const { descriptor, bytes } of all) {
    const path = join(dir, 'blobs', descriptor.digest.replace(':', '/'));
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, bytes);
  }
  const entries = [
    { ...index.descriptor, annotations: { [tagKey]: tag } },
    ...referrers.map(({ manifest: { descriptor } }) => ({
      ...descriptor,
      annotations: { [subjectKey]: index.descriptor.digest },
    })),
  ];
  writeFileSync(join(dir, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}');
  writeFileSync(join(dir, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: entries }));
}

/** Pushes a release to a registry without TLS. @returns the digest */
export async function pushTo(reference: string, release: string, tag: string): Promise<string> {
  const files = filesIn(release);
  const client = new RegistryClient(readReference(reference) as never, { env: {}, credentials: () => undefined });
  const { digest } = await pushRelease(client, releaseIn(files), files, tag);
  client.close();
  return digest;
}

function filesIn(dir: string): ReadonlyMap<string, string> {
  const entries = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((one) => one.isFile());
  const paths = entries.map((one) => join(one.parentPath, one.name));
  return new Map(paths.map((path) => [path.slice(dir.length + 1), readFileSync(path, 'utf8')]));
}

function releaseIn(files: ReadonlyMap<string, string>): Exclude<ReturnType<typeof readRelease>, { code: unknown }> {
  const release = readRelease(files.get('release.yaml') ?? '');
  if (isProblem(release)) throw new Error(release.message);
  return release;
}

const git = (dir: string, ...args: readonly string[]): string =>
  execFileSync('/usr/bin/git', ['-C', dir, '-c', 'user.name=a', '-c', 'user.email=a@b', ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  });

/** Commits a release to a repository that is served. @param path the folder of the release in it */
export function commitTo(repository: string, release: string, path: string): void {
  if (!existsSync(repository)) {
    mkdirSync(repository, { recursive: true });
    git(repository, 'init', '-q', '-b', 'main');
    git(repository, 'config', 'http.receivepack', 'true');
  }
  rmSync(join(repository, path), { recursive: true, force: true });
  cpSync(release, join(repository, path), { recursive: true });
  git(repository, 'add', '-A');
  git(repository, 'commit', '-q', '-m', 'release');
}

/** git's own CGI program over the repositories below a directory. @param password of user alice; undefined: access is open */
export const gitServer = (dir: string, identity?: KeyPair, password?: string): Promise<LoopbackServer> =>
  LoopbackServer.open(
    (server) => (request, response) => {
      const basic = `Basic ${Buffer.from(`alice:${password}`).toString('base64')}`;
      if (password !== undefined && request.headers.authorization !== basic)
        return void response.writeHead(401, { 'www-authenticate': 'Basic realm="git"' }).end();
      const url = new URL(request.url ?? '/', 'http://x');
      const env = {
        PATH: '/usr/bin:/bin',
        GIT_PROJECT_ROOT: dir,
        GIT_HTTP_EXPORT_ALL: '1',
        PATH_INFO: url.pathname,
        QUERY_STRING: url.search.slice(1),
        REQUEST_METHOD: request.method ?? '',
        CONTENT_TYPE: request.headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: request.headers['content-encoding'] ?? '',
        GIT_PROTOCOL: String(request.headers['git-protocol'] ?? ''),
        GIT_CONFIG_COUNT: '1',
        GIT_CONFIG_KEY_0: 'safe.directory',
        GIT_CONFIG_VALUE_0: '*',
      };
      const child = spawn('/usr/lib/git-core/git-http-backend', [], { env, stdio: ['pipe', 'pipe', 'ignore'] });
      request.pipe(child.stdin);
      const chunks: Buffer[] = [];
      child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
      child.on('close', () => {
        const all = Buffer.concat(chunks);
        const end = all.indexOf('\r\n\r\n');
        const headers = all
          .toString('latin1', 0, end)
          .split('\r\n')
          .map((line) => line.split(': ') as [string, string]);
        const status = Number(headers.find(([name]) => name === 'Status')?.[1].slice(0, 3) ?? 200);
        const body = all.subarray(end + 4);
        server.bytes += body.length;
        response.writeHead(status, Object.fromEntries(headers.filter(([name]) => name !== 'Status'))).end(body);
      });
    },
    identity,
  );
