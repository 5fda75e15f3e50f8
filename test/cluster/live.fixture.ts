import type { IncomingMessage, ServerResponse } from 'node:http';
import { type Item, send, startApiServer, type TestApiServer, token } from './apiserver.fixture.ts';

interface Logged {
  readonly version: number;
  readonly resource: string;
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: Item;
}

/** Somebody who watches a resource. */
interface Watcher {
  readonly resource: string;
  readonly response: ServerResponse;
}

/**
 * A cluster that changes: the test API server with watches, as etcd keeps them. Every change gets the next resource version; a
 * watch starts with what was logged since its own, or ends with 410 when that is forgotten.
 */
export class LiveCluster {
  readonly server: TestApiServer;
  /** Says with which status an object that is sent is taken. */
  onPost: (path: string, body: Item) => number = () => 404;
  /** How long a change takes to those who watch. */
  delayMs = 0;
  #version = 100;
  #forgotten = 0;
  #log: Logged[] = [];
  readonly #watchers = new Set<Watcher>();
  readonly #objects = new Map<string, Map<string, Item>>();

  private constructor(server: TestApiServer) {
    this.server = server;
  }

  static async start(): Promise<LiveCluster> {
    const server = await startApiServer();
    const self = new LiveCluster(server);
    server.version = () => String(self.#version);
    server.meddle = (path, request, response) => self.answer(path, request, response);
    for (const resource of ['services', 'endpointslices', 'nodes', 'servicecidrs']) self.#publish(resource);
    return self;
  }

  /** Answers watches; lists are left to the server. */
  answer(path: string, request: IncomingMessage, response: ServerResponse): boolean {
    const url = new URL(path, 'https://server');
    if (request.method === 'POST') {
      void readBody(request).then((body) => send(response, this.onPost(url.pathname, body), body));
      return true;
    }
    if (url.searchParams.get('watch') !== '1') return false;
    if (request.headers.authorization !== `Bearer ${token}`) {
      send(response, 401, {});
      return true;
    }
    const resource = url.pathname.split('/').at(-1) ?? '';
    this.#watch(resource, Number(url.searchParams.get('resourceVersion')), response);
    return true;
  }

  #watch(resource: string, since: number, response: ServerResponse): void {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    if (since < this.#forgotten) {
      const object = { kind: 'Status', code: 410, reason: 'Expired', message: 'too old resource version' };
      response.end(`${JSON.stringify({ type: 'ERROR', object })}\n`);
      return;
    }
    const missed = this.#log.filter((event) => event.resource === resource && event.version > since);
    for (const event of missed) write(response, event);
    const watcher = { resource, response };
    this.#watchers.add(watcher);
    response.on('close', () => this.#watchers.delete(watcher));
  }

  /** Puts in many objects at once, before anybody looks. */
  load(resource: string, items: readonly Item[]): void {
    for (const item of items) this.#of(resource).set(keyOf(item), item);
    this.#publish(resource);
  }

  /** Creates an object, or changes the one of its namespace and name. */
  put(resource: string, item: Item): void {
    const key = keyOf(item);
    const type = this.#of(resource).has(key) ? 'MODIFIED' : 'ADDED';
    this.#tell(resource, type, item);
  }

  remove(resource: string, name: string, namespace = 'shop'): void {
    const item = this.#of(resource).get(`${namespace}/${name}`);
    if (item !== undefined) this.#tell(resource, 'DELETED', item);
  }

  /** Tells all watchers how far they are. */
  bookmark(): void {
    for (const { response } of this.#watchers) {
      const object = { metadata: { resourceVersion: String(this.#version) } };
      response.write(`${JSON.stringify({ type: 'BOOKMARK', object })}\n`);
    }
  }

  /** Forgets all changes so far, as etcd does when it is compacted. */
  compact(): void {
    this.#forgotten = this.#version;
    this.#log = [];
  }

  /** Cuts every watch, in order or not. */
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

  #of(resource: string): Map<string, Item> {
    let items = this.#objects.get(resource);
    if (items === undefined) this.#objects.set(resource, (items = new Map()));
    return items;
  }

  #tell(resource: string, type: Logged['type'], item: Item): void {
    this.#version += 1;
    const metadata = { ...(item['metadata'] as Item), resourceVersion: String(this.#version) };
    const object = { ...item, metadata };
    if (type === 'DELETED') this.#of(resource).delete(keyOf(item));
    else this.#of(resource).set(keyOf(item), object);
    this.#publish(resource);
    const event = { version: this.#version, resource, type, object };
    this.#log.push(event);
    const deliver = (): void => {
      for (const watcher of this.#watchers) if (watcher.resource === resource) write(watcher.response, event);
    };
    if (this.delayMs === 0) deliver();
    else setTimeout(deliver, this.delayMs);
  }

  #publish(resource: string): void {
    this.server.objects.set(resource, [...this.#of(resource).values()]);
  }
}

function write(response: ServerResponse, { type, object }: Logged): void {
  response.write(`${JSON.stringify({ type, object })}\n`);
}

async function readBody(request: IncomingMessage): Promise<Item> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return JSON.parse(text) as Item;
}

function keyOf(item: Item): string {
  const { namespace, name } = item['metadata'] as { namespace?: string; name: string };
  return `${namespace ?? ''}/${name}`;
}
