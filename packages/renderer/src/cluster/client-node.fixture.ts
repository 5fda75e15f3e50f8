import * as library from '@kubernetes/client-node';
import type { JsonObject } from '../render/model/kube.ts';
import type { ListedKind } from './kinds.ts';

/** All objects of a kind as the client library reads them, page by page, as JSON. */
export async function listByLibrary(
  kubeconfig: string,
  kind: ListedKind['kind'],
  limit?: number,
): Promise<readonly JsonObject[]> {
  const config = new library.KubeConfig();
  config.loadFromFile(kubeconfig);
  const [core, discovery] = [config.makeApiClient(library.CoreV1Api), config.makeApiClient(library.DiscoveryV1Api)];
  const networking = config.makeApiClient(library.NetworkingV1Api);
  const items: unknown[] = [];
  let next: string | undefined;
  do {
    const page = { ...(limit !== undefined && { limit }), ...(next !== undefined && { _continue: next }) };
    const listed = await {
      Service: () => core.listServiceForAllNamespaces(page),
      EndpointSlice: () => discovery.listEndpointSliceForAllNamespaces(page),
      Endpoints: () => core.listEndpointsForAllNamespaces(page),
      Node: () => core.listNode(page),
      ServiceCIDR: () => networking.listServiceCIDR(page),
    }[kind]();
    for (const item of listed.items) items.push(item);
    ({ _continue: next } = listed.metadata ?? {});
  } while (next);
  return JSON.parse(JSON.stringify(items), withoutFraction) as JsonObject[];
}

/** The library makes dates of times, which print with a fraction of a second. */
const withoutFraction = (_key: string, value: unknown): unknown =>
  typeof value === 'string' ? value.replace(/^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.000Z$/, '$1Z') : value;
