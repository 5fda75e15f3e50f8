import { copyFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { type ApiObject, bodyOf, send, token } from './apiserver.fixture.ts';
import { isGranted, type RbacRole, type RequestAttributes, attributesOf } from './authorizer.fixture.ts';
import { LeaseServer } from './lease.fixture.ts';
import { LiveCluster } from './live.fixture.ts';

/** An API server to run tests against, empty at first. */
export interface TestApi {
  /** The kubeconfig of an administrator, for kubectl. */
  readonly admin: string;
  /** The kubeconfig of the account `sluice`, which has no rights without a role. */
  readonly kubeconfig: string;
  close(): Promise<void>;
}

/** The project's own API server: it stores what kubectl writes, and checks roles for requests with the token of `sluice`. */
export async function ownApi(): Promise<TestApi> {
  const cluster = await LiveCluster.start();
  const leases = new LeaseServer();
  const { server } = cluster;
  const roles = (): readonly RbacRole[] =>
    [...(server.objects.get('roles') ?? []), ...(server.objects.get('clusterroles') ?? [])] as unknown as RbacRole[];
  server.intercept = (path, request, response) => {
    const attributes = attributesOf(request.method ?? 'GET', path);
    const isAdmin = request.headers.authorization !== `Bearer ${token}`;
    if (!isAdmin && !isGranted(roles(), attributes)) {
      send(response, 403, { kind: 'Status', reason: 'Forbidden' });
      return true;
    }
    return (
      leases.answer(path, request, response) ||
      takeWrite(cluster, attributes, request, response) ||
      cluster.answer(path, request, response)
    );
  };
  const user = { 'client-certificate': join(server.dir, 'client.crt'), 'client-key': join(server.dir, 'client.key') };
  const admin = join(server.dir, 'admin');
  copyFileSync(server.kubeconfig(user), admin);
  return { admin, kubeconfig: server.kubeconfig({ token }), close: () => server.close() };
}

/** Creates, replaces and deletes, as far as tests do; @returns false for reads */
function takeWrite(
  cluster: LiveCluster,
  attributes: RequestAttributes,
  request: IncomingMessage,
  response: ServerResponse,
): boolean {
  if (!['create', 'update', 'delete'].includes(attributes.verb)) return false;
  void bodyOf(request).then((text) => {
    if (text !== undefined) send(response, attributes.verb === 'create' ? 201 : 200, write(cluster, attributes, text));
  });
  return true;
}

function write(cluster: LiveCluster, { verb, resource, namespace, name }: RequestAttributes, text: string): ApiObject {
  if (verb === 'delete') {
    cluster.remove(resource, name ?? '', namespace);
    return { kind: 'Status', status: 'Success' };
  }
  const sent = JSON.parse(text) as ApiObject & { metadata: ApiObject };
  const creationTimestamp = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
  const item = verb === 'update' ? sent : { ...sent, metadata: { ...sent.metadata, creationTimestamp, uid: 'u' } };
  if (['services', 'endpointslices', 'nodes', 'servicecidrs'].includes(resource)) cluster.put(resource, item);
  else cluster.server.objects.set(resource, [...(cluster.server.objects.get(resource) ?? []), item]);
  return item;
}
