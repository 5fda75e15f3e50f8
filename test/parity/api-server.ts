/**
 * An API server for one kube-proxy, inside the network namespace of its node: lists and watches over plain HTTP on loopback. Arguments:
 * the path of a file of objects and a port; with an address and a directory of certificates, too, it listens there, over HTTPS.
 * `POST /change` with a list of `KubeChange` is answered once watchers have them; it is also served on a socket beside the file, which a
 * test reaches without entering the namespace. It imports nothing from the workspace, so that a namespace starts it at once.
 */
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import { dirname, join } from 'node:path';

export type KubeItem = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
};

export type KubeChange = { readonly type: 'put' | 'remove'; readonly item: KubeItem };

const resources: Readonly<Record<string, string>> = {
  services: 'Service',
  endpointslices: 'EndpointSlice',
  nodes: 'Node',
  servicecidrs: 'ServiceCIDR',
};
const groups: Readonly<Record<string, string>> = {
  endpointslices: 'discovery.k8s.io/v1',
  servicecidrs: 'networking.k8s.io/v1',
};

const objects = new Map<string, KubeItem>();
type IsWanted = (item: KubeItem) => boolean;
const watchers = new Map<ServerResponse, IsWanted>();
/** All changes so far: the first is version 2. A client that listed before a change may open its watch after it. */
const changes: { readonly before: KubeItem | undefined; readonly after: KubeItem | undefined }[] = [];
const version = (): number => changes.length + 1;

const keyOf = ({ kind, metadata: { namespace = '', name } }: KubeItem): string => `${kind} ${namespace}/${name}`;

/** Label selectors of presence (`a`, `!a`) and equality, and field selectors of the name: all that kube-proxy uses. */
function selects(url: URL): IsWanted {
  const labels = (url.searchParams.get('labelSelector') ?? '').split(',').filter((part) => part !== '');
  const name = /metadata\.name=([^,]+)/.exec(url.searchParams.get('fieldSelector') ?? '')?.[1];
  return ({ metadata }) =>
    (name === undefined || metadata.name === name) &&
    labels.every((part) => {
      const own = metadata.labels ?? {};
      if (part.startsWith('!')) return !Object.hasOwn(own, part.slice(1));
      const [key, value] = part.split(/==?/) as [string, string?];
      return value === undefined ? Object.hasOwn(own, key) : own[key] === value;
    });
}

const stamped = (item: KubeItem, at = version()): object => ({
  ...item,
  metadata: { ...item.metadata, resourceVersion: String(at) },
});

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

function answer(request: IncomingMessage, response: ServerResponse): void {
  const url = new URL(request.url ?? '/', 'http://server');
  const resource = url.pathname.split('/').find((part) => Object.hasOwn(resources, part));
  if (url.pathname === '/change') {
    void readBody(request).then((body) => {
      for (const one of JSON.parse(body) as readonly KubeChange[]) change(one);
      send(response, 200, {});
    });
    return;
  }
  // Events of kube-proxy.
  if (request.method !== 'GET') return send(response, 201, {});
  if (resource === undefined)
    return send(response, 404, { kind: 'Status', status: 'Failure', reason: 'NotFound', code: 404 });
  const kind = resources[resource] as string;
  const isWanted = (item: KubeItem): boolean => item.kind === kind && selects(url)(item);
  if (url.searchParams.has('sendInitialEvents'))
    // Like a server without streaming lists: the client lists then.
    return send(response, 422, { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: 'Invalid', code: 422 });
  if (url.searchParams.has('watch')) {
    response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders();
    const from = Number(url.searchParams.get('resourceVersion') ?? version());
    for (let at = from + 1; at <= version(); at++) sendEvent(response, isWanted, at);
    watchers.set(response, isWanted);
    response.on('close', () => watchers.delete(response));
    return;
  }
  const one = /\/nodes\/([^/]+)$/.exec(url.pathname)?.[1];
  if (one !== undefined) {
    const found = objects.get(`Node /${one}`);
    return found ? send(response, 200, stamped(found)) : send(response, 404, { kind: 'Status', code: 404 });
  }
  const items = [...objects.values()].filter(isWanted).map((item) => stamped(item));
  const apiVersion = groups[resource] ?? 'v1';
  send(response, 200, { kind: `${kind}List`, apiVersion, metadata: { resourceVersion: String(version()) }, items });
}

async function readBody(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  return text;
}

function change({ type, item }: KubeChange): void {
  const [before, after] = [objects.get(keyOf(item)), type === 'put' ? item : undefined];
  if (after) objects.set(keyOf(item), after);
  else objects.delete(keyOf(item));
  changes.push({ before, after });
  for (const [response, isWanted] of watchers) sendEvent(response, isWanted, version());
}

/** Sends the change of a version, if the watcher selects it. When its selector no longer matches it gets a deletion of the previous object. */
function sendEvent(response: ServerResponse, isWanted: IsWanted, at: number): void {
  const { before, after } = changes[at - 2] ?? {};
  const [was, is] = [before && isWanted(before), after && isWanted(after)];
  const object = is ? after : was ? before : undefined;
  if (!object) return;
  const type = !is ? 'DELETED' : was ? 'MODIFIED' : 'ADDED';
  response.write(`${JSON.stringify({ type, object: stamped(object, at) })}\n`);
}

const [file = '', port, address = '127.0.0.1', certificates] = process.argv.slice(2);
for (const item of JSON.parse(readFileSync(file, 'utf8')) as readonly KubeItem[]) objects.set(keyOf(item), item);
const certificate = (name: string): Buffer => readFileSync(join(certificates ?? '', name));
const server =
  certificates === undefined
    ? createServer(answer)
    : createSecureServer({ key: certificate('server.key'), cert: certificate('server.crt') }, answer);
server.listen(Number(port), address);
createServer(answer).listen(join(dirname(file), 'api.sock'));
