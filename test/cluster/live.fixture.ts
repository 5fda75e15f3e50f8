import type { IncomingMessage, ServerResponse } from 'node:http';
import {
  type ApiObject,
  bodyOf,
  isMeant,
  send,
  startApiServer,
  type TestApiServer,
  token,
} from './apiserver.fixture.ts';

interface LoggedChange {
  readonly version: number;
  readonly resource: string;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: ApiObject;
}

/** A client that watches a resource. */
interface WatchClient {
  readonly resource: string;
  readonly url: URL;
  readonly response: ServerResponse;
}

/**
 * A cluster that changes: the test API server with watches, as etcd provides them. Every change gets the next resource version; a
 * watch starts with the changes since its own version, or ends with 410 when these are compacted.
 */
export class LiveCluster {
  readonly server: TestApiServer;
  /** The status with which it accepts or refuses an object. */
  onPost: (path: string, body: ApiObject) => number = () => 404;
  /** The delay of a change for watchers. */
  delayMs = 0;
  #version = 100;
  #forgotten = 0;
  #log: LoggedChange[] = [];
  readonly #watchers = new Set<WatchClient>();
  readonly #objects = new Map<string, Map<string, ApiObject>>();

  private constructor(server: TestApiServer) {
    this.server = server;
  }

  static async start(): Promise<LiveCluster> {
    const server = await startApiServer();
    const self = new LiveCluster(server);
    server.version = () => String(self.#version);
    server.intercept = (path, request, response) => self.answer(path, request, response);
    for (const resource of ['services', 'endpointslices', 'nodes', 'servicecidrs']) self.#publish(resource);
    return self;
  }

  /** Answers watches; the server answers lists. */
  answer(path: string, request: IncomingMessage, response: ServerResponse): boolean {
    const url = new URL(path, 'https://server');
    if (request.method === 'POST') {
      void bodyOf(request).then((text) => {
        if (text === undefined) return;
        const body = JSON.parse(text) as ApiObject;
        send(response, this.onPost(url.pathname, body), body);
      });
      return true;
    }
    if (!['1', 'true'].includes(url.searchParams.get('watch') ?? '')) return false;
    if (request.headers.authorization !== `Bearer ${token}`) {
      send(response, 401, {});
      return true;
    }
    const resource = url.pathname.split('/').at(-1) ?? '';
    this.#watch({ resource, url, response });
    return true;
  }

  #watch(watcher: WatchClient): void {
    const { resource, url, response } = watcher;
    const since = Number(url.searchParams.get('resourceVersion'));
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    if (since < this.#forgotten) {
      const object = { kind: 'Status', code: 410, reason: 'Expired', message: 'too old resource version' };
      response.end(`${JSON.stringify({ type: 'ERROR', object })}\n`);
      return;
    }
    const missed = this.#log.filter((event) => event.resource === resource && event.version > since);
    for (const event of missed) write(watcher, event);
    this.#watchers.add(watcher);
    response.on('close', () => this.#watchers.delete(watcher));
  }

  /** Creates many objects at once, before the first request. */
  load(resource: string, items: readonly ApiObject[]): void {
    for (const item of items) this.#of(resource).set(keyOf(item), item);
    this.#publish(resource);
  }

  /** Creates an object, or changes the one of its namespace and name. */
  put(resource: string, item: ApiObject): void {
    const key = keyOf(item);
    const type = this.#of(resource).has(key) ? 'MODIFIED' : 'ADDED';
    this.#tell(resource, type, item);
  }

  remove(resource: string, name: string, namespace = 'shop'): void {
    const item = this.#of(resource).get(`${namespace}/${name}`);
    if (item !== undefined) this.#tell(resource, 'DELETED', item);
  }

  /** Sends a bookmark to all watchers. */
  bookmark(): void {
    for (const { response } of this.#watchers) {
      const object = { metadata: { resourceVersion: String(this.#version) } };
      response.write(`${JSON.stringify({ type: 'BOOKMARK', object })}\n`);
    }
  }

  /** Compacts all changes so far, as etcd does. */
  compact(): void {
    this.#forgotten = this.#version;
    this.#log = [];
  }

  /** Loses all objects of a resource without a word, as an etcd that is restored empty: no watch tells it, only the next list. */
  lose(resource: string): void {
    this.#of(resource).clear();
    this.#version += 1;
    this.#publish(resource);
    this.compact();
    this.drop();
  }

  /** Cuts every watch, cleanly or not. */
  drop(how: 'end' | 'destroy' = 'destroy'): void {
    for (const { response } of this.#watchers) {
      if (how === 'end') response.end();
      else response.socket?.destroy();
    }
    this.#watchers.clear();
  }

  get watching(): number {
    return this.#watchers.size;
  }

  #of(resource: string): Map<string, ApiObject> {
    let items = this.#objects.get(resource);
    if (items === undefined) this.#objects.set(resource, (items = new Map()));
    return items;
  }

  #tell(resource: string, type: LoggedChange['type'], item: ApiObject): void {
    this.#version += 1;
    const metadata = { ...(item['metadata'] as ApiObject), resourceVersion: String(this.#version) };
    const object = { ...item, metadata };
    if (type === 'DELETED') this.#of(resource).delete(keyOf(item));
    else this.#of(resource).set(keyOf(item), object);
    this.#publish(resource);
    const event = { version: this.#version, resource, type, object };
    this.#log.push(event);
    const deliver = (): void => {
      for (const watcher of this.#watchers) if (watcher.resource === resource) write(watcher, event);
    };
    if (this.delayMs === 0) deliver();
    else setTimeout(deliver, this.delayMs);
  }

  #publish(resource: string): void {
    this.server.objects.set(resource, [...this.#of(resource).values()]);
  }
}

/** Like the API server: an object that a selector does not mean any more is deleted for that watcher. */
function write({ url, response }: WatchClient, { type, object }: LoggedChange): void {
  const told = isMeant(url, object) ? type : type === 'MODIFIED' ? 'DELETED' : undefined;
  if (told !== undefined) response.write(`${JSON.stringify({ type: told, object })}\n`);
}

function keyOf(item: ApiObject): string {
  const { namespace, name } = item['metadata'] as { namespace?: string; name: string };
  return `${namespace ?? ''}/${name}`;
}
