import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { makeAuthority } from './certificates.fixture.ts';

export type ApiObject = Readonly<Record<string, unknown>>;

/** Answers a request itself and returns true, or leaves it to the server. */
export type Interceptor = (path: string, request: IncomingMessage, response: ServerResponse) => boolean;

export interface TestApiServer {
  readonly url: string;
  /** Has the certificates (`ca.crt`, `client.crt`, `client.key`) and kubeconfigs; removed by `close`. */
  readonly dir: string;
  /** By resource, such as `services`. */
  readonly objects: Map<string, readonly ApiObject[]>;
  /** Called before each answer. */
  intercept: Interceptor;
  readonly asked: string[];
  /** The resource version of a list. */
  version: () => string;
  /** Writes a kubeconfig with this user (JSON is YAML) and returns its path. */
  kubeconfig(user: ApiObject, cluster?: ApiObject): string;
  close(): Promise<void>;
}

export const token = 'a-token-of-the-test';

/** A real HTTPS server that lists objects in pages and requires a token or a client certificate. */
export async function startApiServer(notAfter?: 'expired'): Promise<TestApiServer> {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-apiserver-'));
  writeCertificates(dir, notAfter === 'expired');
  const read = (name: string): Buffer => readFileSync(join(dir, name));
  const tls = { key: read('server.key'), cert: read('server.crt'), ca: read('ca.crt') };
  const sockets = new Set<Socket>();
  const self = {
    objects: new Map<string, readonly ApiObject[]>(),
    intercept: (() => false) as Interceptor,
    asked: [] as string[],
    version: (): string => '7',
  };
  const server = createServer({ ...tls, requestCert: true, rejectUnauthorized: false }, (request, response) => {
    const path = request.url ?? '';
    self.asked.push(path);
    if (!self.intercept(path, request, response)) answer(path, request, response, self);
  });
  server.on('connection', (socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return Object.assign(self, { url, dir, kubeconfig: writerOf(dir, url), close: () => stop(server, sockets, dir) });
}

function answer(
  path: string,
  request: IncomingMessage,
  response: ServerResponse,
  { objects, version }: Pick<TestApiServer, 'objects' | 'version'>,
): void {
  const socket = request.socket as Socket & { authorized: boolean };
  if (request.headers.authorization !== `Bearer ${token}` && !socket.authorized) return send(response, 401, {});
  const url = new URL(path, 'https://server');
  const resource = url.pathname.split('/').at(-1) ?? '';
  const all = objects.get(resource)?.filter((object) => isMeant(url, object));
  if (all === undefined) return send(response, 404, {});
  const start = Number(url.searchParams.get('continue') ?? 0);
  const end = start + Number(url.searchParams.get('limit') ?? all.length);
  const kinds: Record<string, string> = {
    services: 'Service',
    endpointslices: 'EndpointSlice',
    nodes: 'Node',
    endpoints: 'Endpoints',
    servicecidrs: 'ServiceCIDR',
    configmaps: 'ConfigMap',
  };
  const metadata = { resourceVersion: version(), ...(end < all.length ? { continue: String(end) } : {}) };
  send(response, 200, { kind: `${kinds[resource]}List`, apiVersion: 'v1', metadata, items: all.slice(start, end) });
}

/** Whether the selectors of a request, of the forms that `sluice watch` sends, select an object: `!label`, `metadata.name=x`, `spec.clusterIP!=None`. */
export function isMeant(url: URL, { metadata, spec }: ApiObject): boolean {
  const { name, labels = {} } = metadata as {
    readonly name: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  const field = url.searchParams.get('fieldSelector') ?? '';
  const isHeadless = (spec as { readonly clusterIP?: string } | undefined)?.clusterIP === 'None';
  if (field === 'spec.clusterIP!=None' && isHeadless) return false;
  if (name !== (/^metadata\.name=(.*)$/.exec(field)?.[1] ?? name)) return false;
  const without = (url.searchParams.get('labelSelector') ?? '').split(',').filter((term) => term.startsWith('!'));
  return without.every((term) => labels[term.slice(1)] === undefined);
}

/** Compressed for a client that asks for it: a real server does so beyond 128 KiB. */
export function send(response: ServerResponse, status: number, body: unknown): void {
  const text = JSON.stringify(body);
  const isPacked = response.req.headers['accept-encoding'] === 'gzip';
  const headers = { 'content-type': 'application/json', ...(isPacked && { 'content-encoding': 'gzip' }) };
  response.writeHead(status, headers).end(isPacked ? gzipSync(text) : text);
}

function writerOf(dir: string, server: string): TestApiServer['kubeconfig'] {
  return (user, cluster = { 'certificate-authority': join(dir, 'ca.crt') }) => {
    const file = join(dir, 'kubeconfig');
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'c', cluster: { server, ...cluster } }],
      users: [{ name: 'u', user }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    };
    writeFileSync(file, JSON.stringify(config));
    return file;
  };
}

async function stop(server: Server, sockets: ReadonlySet<Socket>, dir: string): Promise<void> {
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => server.close(resolve));
  rmSync(dir, { recursive: true });
}

function writeCertificates(dir: string, isExpired: boolean): void {
  const hour = 3_600_000;
  const authority = makeAuthority('test-ca', new Date(Date.now() + hour));
  const until = (name: string): Date => new Date(Date.now() + (isExpired && name === 'server' ? -hour : hour));
  writeFileSync(join(dir, 'ca.crt'), authority.certificate);
  for (const name of ['server', 'client']) {
    const { key, certificate } = authority.issue(name, until(name));
    writeFileSync(join(dir, `${name}.key`), key);
    writeFileSync(join(dir, `${name}.crt`), certificate);
  }
}

/** A program that is killed leaves half a request, for which nothing can be answered: undefined. */
export async function bodyOf(request: IncomingMessage): Promise<string | undefined> {
  let text = '';
  try {
    for await (const chunk of request) text += String(chunk);
    return text;
  } catch {
    return undefined;
  }
}
