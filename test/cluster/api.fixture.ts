import { copyFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { type Item, send, token } from './apiserver.fixture.ts';
import { isGranted, type Role, type Wanted, wantedBy } from './authorizer.fixture.ts';
import { LeaseServer } from './lease.fixture.ts';
import { LiveCluster } from './live.fixture.ts';

/** An API server to run tests against, empty at first. */
export interface TestApi {
  /** Of an administrator, for kubectl. */
  readonly admin: string;
  /** Of the account `sluice`, which may do nothing until a role says so. */
  readonly kubeconfig: string;
  close(): Promise<void>;
}

/** The project's own API server: what kubectl writes is there, and roles hold for who comes with the token. */
export async function ownApi(): Promise<TestApi> {
  const cluster = await LiveCluster.start();
  const leases = new LeaseServer();
  const { server } = cluster;
  const roles = (): readonly Role[] =>
    [...(server.objects.get('roles') ?? []), ...(server.objects.get('clusterroles') ?? [])] as unknown as Role[];
  server.meddle = (path, request, response) => {
    const wanted = wantedBy(request.method ?? 'GET', path);
    const isAdmin = request.headers.authorization !== `Bearer ${token}`;
    if (!isAdmin && !isGranted(roles(), wanted)) {
      send(response, 403, { kind: 'Status', reason: 'Forbidden' });
      return true;
    }
    return (
      leases.answer(path, request, response) ||
      takeWrite(cluster, wanted, request, response) ||
      cluster.answer(path, request, response)
    );
  };
  const user = { 'client-certificate': join(server.dir, 'client.crt'), 'client-key': join(server.dir, 'client.key') };
  const admin = join(server.dir, 'admin');
  copyFileSync(server.kubeconfig(user), admin);
  return { admin, kubeconfig: server.kubeconfig({ token }), close: () => server.close() };
}

/** Creates, replaces and deletes, as far as tests do; @returns false for what only reads */
function takeWrite(cluster: LiveCluster, wanted: Wanted, request: IncomingMessage, response: ServerResponse): boolean {
  if (!['create', 'update', 'delete'].includes(wanted.verb)) return false;
  void write(cluster, wanted, request).then((item) => send(response, wanted.verb === 'create' ? 201 : 200, item));
  return true;
}

async function write(
  cluster: LiveCluster,
  { verb, resource, namespace, name }: Wanted,
  request: IncomingMessage,
): Promise<Item> {
  let text = '';
  for await (const chunk of request) text += String(chunk);
  if (verb === 'delete') {
    cluster.remove(resource, name ?? '', namespace);
    return { kind: 'Status', status: 'Success' };
  }
  const sent = JSON.parse(text) as Item & { metadata: Item };
  const creationTimestamp = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
  const item = verb === 'update' ? sent : { ...sent, metadata: { ...sent.metadata, creationTimestamp, uid: 'u' } };
  if (['services', 'endpointslices', 'nodes', 'servicecidrs'].includes(resource)) cluster.put(resource, item);
  else cluster.server.objects.set(resource, [...(cluster.server.objects.get(resource) ?? []), item]);
  return item;
}
