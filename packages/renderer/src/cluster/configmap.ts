import { compareText, type Problem } from '@sluice/netfilter';
import { isMap, type JsonObject, parseJson } from '../render/model/kube.ts';
import type { Access } from './access.ts';
import { ClusterFailure } from './failure.ts';
import { mapAt, textAt } from './json.ts';
import { keepConfigMap } from './keep.ts';
import { configMapPath, configMapRule, configMaps, kubeProxyConfigMaps } from './kinds.ts';
import { clusterLimits } from './limits.ts';
import { list } from './list.ts';
import { noConfigMap, refused, unexpectedResponse, unreadConfigMap } from './refusal.ts';
import { get, type Patience } from './request.ts';

/** The ConfigMaps with kube-proxy's configuration, in the order of their names; without one a note may say why. */
interface FoundConfigMaps {
  readonly objects: readonly JsonObject[];
  readonly note?: Problem;
}

/**
 * Searches the ConfigMaps of kube-system for kube-proxy's configuration, by content; without the right to list them, those that kubeadm
 * and EKS make. Without any the defaults or a config apply.
 * @throws ClusterFailure
 */
export async function readConfigMaps(access: Access, patience?: Patience): Promise<FoundConfigMaps> {
  const listed = await listConfigMaps(access, patience);
  if (Array.isArray(listed)) {
    return listed.length > 0 ? { objects: listed } : { objects: [], note: noConfigMap(access) };
  }
  const objects: JsonObject[] = [];
  let isForbidden = listed === 'forbidden';
  for (const name of kubeProxyConfigMaps.names) {
    const found = await getConfigMap(access, name, patience);
    if (found === 'forbidden') isForbidden = true;
    else if (found !== undefined) objects.push(found);
  }
  return objects.length === 0 && isForbidden ? { objects, note: unreadConfigMap(access) } : { objects };
}

async function listConfigMaps(
  access: Access,
  patience: Patience | undefined,
): Promise<JsonObject[] | 'forbidden' | undefined> {
  const { namespace } = kubeProxyConfigMaps;
  const pageObjects = clusterLimits.pageConfigMaps;
  try {
    const listed = await list(access, configMaps, { namespace, pageObjects, ...(patience && { patience }) });
    return listed?.items
      .map((item) => keepConfigMap(item))
      .filter((item) => item !== undefined)
      .toSorted((a, b) => compareText(nameOf(a), nameOf(b)));
  } catch (error) {
    if (error instanceof ClusterFailure && error.problem.code === 'CLUSTER_FORBIDDEN') return 'forbidden';
    throw error;
  }
}

const nameOf = (object: JsonObject): string => textAt(mapAt(object, 'metadata'), 'name');

async function getConfigMap(
  access: Access,
  name: string,
  patience: Patience | undefined,
): Promise<JsonObject | 'forbidden' | undefined> {
  const { status, body } = await get(access, configMapPath(name), patience);
  const what = `read ConfigMap ${kubeProxyConfigMaps.namespace}/${name} of ${access.server}`;
  if (status === 404) return undefined;
  if (status === 403) return 'forbidden';
  if (status !== 200) throw refused(what, status, configMapRule);
  const value = parseJson(body);
  if (!isMap(value) || value['kind'] !== 'ConfigMap') throw unexpectedResponse(what, 'ConfigMap');
  return keepConfigMap(value);
}
