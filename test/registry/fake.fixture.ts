import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';

/** The properties of a registry. */
export interface Nature {
  /** Whether it lists the referrers of a manifest (OCI 1.1). */
  readonly referrers?: boolean;
  /** Its key and certificate, both as PEM; plain HTTP without them. */
  readonly identity?: { readonly key: string; readonly certificate: string };
  /** Answers in the place of the registry where it returns true. */
  readonly instead?: (request: IncomingMessage, response: ServerResponse) => boolean;
}

interface StoredManifest {
  readonly bytes: Buffer;
  readonly type: string;
}

const digestOf = (bytes: Buffer): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

/** A registry of a hundred lines, on loopback: the parts of the OCI distribution-spec that releases need. */
export class FakeRegistry {
  readonly blobs = new Map<string, Buffer>();
  /** By tag and by digest. */
  readonly manifests = new Map<string, StoredManifest>();
  /** Every request: method and path, with `+auth` when it had credentials. */
  readonly seen: string[] = [];
  readonly #sockets: Socket[] = [];
  readonly #server: Server;
  readonly #nature: Nature;

  private constructor(nature: Nature) {
    this.#nature = nature;
    const serve = (request: IncomingMessage, response: ServerResponse): void => void this.#serve(request, response);
    const { key, certificate: cert } = nature.identity ?? {};
    this.#server = key && cert ? createSecureServer({ key, cert }, serve) : createServer(serve);
  }

  static async open(nature: Nature = {}): Promise<FakeRegistry> {
    const registry = new FakeRegistry(nature);
    registry.#server.on('connection', (socket) => registry.#sockets.push(socket));
    await new Promise<void>((done) => registry.#server.listen(0, '127.0.0.1', done));
    return registry;
  }

  get host(): string {
    return `127.0.0.1:${this.port}`;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Bytes that it has sent, with headers. */
  get bytesSent(): number {
    return this.#sockets.reduce((sum, { bytesWritten }) => sum + bytesWritten, 0);
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://x');
    this.seen.push(`${request.method} ${pathname}${request.headers.authorization === undefined ? '' : ' +auth'}`);
    if (this.#nature.instead?.(request, response) === true) return;
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const [, kind = '', name = ''] = /\/(blobs|manifests|referrers)\/(.*)$/.exec(pathname) ?? [];
    if (kind === 'blobs') this.#blob(request, response, name, searchParams.get('digest') ?? '', Buffer.concat(chunks));
    else if (kind === 'manifests') this.#manifest(request, response, name, Buffer.concat(chunks));
    else if (kind === 'referrers' && this.#nature.referrers) this.#list(response, name);
    else response.writeHead(404).end();
  }

  #blob({ method, url }: IncomingMessage, response: ServerResponse, name: string, digest: string, body: Buffer): void {
    if (method === 'POST') return void response.writeHead(202, { location: `${url}1?state=x` }).end();
    if (method === 'PUT') {
      if (digestOf(body) !== digest) return void response.writeHead(400).end();
      this.blobs.set(digest, body);
      return void response.writeHead(201).end();
    }
    send(response, this.blobs.get(name), 'application/octet-stream', method === 'HEAD');
  }

  #manifest({ method, headers }: IncomingMessage, response: ServerResponse, name: string, body: Buffer): void {
    if (method !== 'PUT')
      return send(response, this.manifests.get(name)?.bytes, this.manifests.get(name)?.type ?? '', false);
    const { subject } = JSON.parse(body.toString('utf8')) as { subject?: { digest: string } };
    const stored = { bytes: body, type: headers['content-type'] ?? '' };
    for (const key of [name, digestOf(body)]) this.manifests.set(key, stored);
    const tracked = subject && this.#nature.referrers ? { 'oci-subject': subject.digest } : {};
    response.writeHead(201, tracked).end();
  }

  #list(response: ServerResponse, digest: string): void {
    const manifests = [...this.manifests].flatMap(([name, { bytes, type }]) => {
      const { subject, artifactType } = JSON.parse(bytes.toString('utf8')) as Record<string, unknown>;
      const isMeant = name.startsWith('sha256:') && (subject as { digest?: string } | undefined)?.digest === digest;
      return isMeant ? [{ mediaType: type, digest: name, size: bytes.length, artifactType }] : [];
    });
    const type = 'application/vnd.oci.image.index.v1+json';
    send(response, Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: type, manifests })), type, false);
  }
}

function send(response: ServerResponse, bytes: Buffer | undefined, type: string, isHead: boolean): void {
  if (bytes === undefined) return void response.writeHead(404).end('{"errors":[{"message":"unknown name"}]}');
  response.writeHead(200, { 'content-type': type, 'content-length': bytes.length }).end(isHead ? undefined : bytes);
}
