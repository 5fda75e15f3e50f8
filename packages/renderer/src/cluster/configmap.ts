import type { Problem } from '@sluice/netfilter';
import { isMap, type JsonObject } from '../render/model/kube.ts';
import type { Access } from './access.ts';
import { parseJson } from './json.ts';
import { keepConfigMap } from './keep.ts';
import { configMapRule, kubeProxyConfigMap, kubeProxyPath } from './kinds.ts';
import { refused, unexpectedResponse, unreadConfigMap } from './refusal.ts';
import { get, type Patience } from './request.ts';

/** kube-proxy's ConfigMap, or a note why it could not be read; neither if it does not exist. */
interface FoundConfigMap {
  readonly object?: JsonObject;
  readonly note?: Problem;
}

/**
 * Reads kube-proxy's ConfigMap, if it exists and is readable; without it the defaults or a config apply.
 * @throws ClusterFailure
 */
export async function readConfigMap(access: Access, patience?: Patience): Promise<FoundConfigMap> {
  const { status, body } = await get(access, kubeProxyPath, patience);
  const what = `read ConfigMap ${kubeProxyConfigMap.namespace}/${kubeProxyConfigMap.name} of ${access.server}`;
  if (status === 404) return {};
  if (status === 403) return { note: unreadConfigMap(access) };
  if (status !== 200) throw refused(what, status, configMapRule);
  const value = parseJson(body);
  if (!isMap(value) || value['kind'] !== 'ConfigMap') throw unexpectedResponse(what, 'ConfigMap');
  return { object: keepConfigMap(value) };
}
