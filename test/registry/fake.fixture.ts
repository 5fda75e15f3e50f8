import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { type LoopbackNature, LoopbackServer } from '../servers/loopback.ts';

/** The properties of a registry. */
export interface Nature extends LoopbackNature {
  /** Whether it lists the referrers of a manifest (OCI 1.1). */
  readonly referrers?: boolean;
}

interface StoredManifest {
  readonly bytes: Buffer;
  readonly type: string;
}

const digestOf = (bytes: Buffer): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

/** A registry of a hundred lines, on loopback: the parts of the OCI distribution-spec that releases need. */
export class FakeRegistry extends LoopbackServer {
  readonly blobs = new Map<string, Buffer>();
  /** By tag and by digest. */
  readonly manifests = new Map<string, StoredManifest>();
  readonly #nature: Nature;

  private constructor(nature: Nature) {
    super(nature);
    this.#nature = nature;
  }

  static open(nature: Nature = {}): Promise<FakeRegistry> {
    return new FakeRegistry(nature).listening();
  }

  protected override async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://x');
    const body = await buffer(request);
    const [, kind = '', name = ''] = /\/(blobs|manifests|referrers)\/(.*)$/.exec(pathname) ?? [];
    if (kind === 'blobs') this.#blob(request, response, name, searchParams.get('digest') ?? '', body);
    else if (kind === 'manifests') this.#manifest(request, response, name, body);
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
