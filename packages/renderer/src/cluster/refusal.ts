import { notice, type Problem } from '@sluice/netfilter';
import type { Access } from './access.ts';
import { ClusterFailure } from './failure.ts';
import { configMapRule, configMapsRule, grantingRule, kubeProxyConfigMaps, type ListKind } from './kinds.ts';
import { clusterLimits } from './limits.ts';

/** The failure for a refused list; for a missing permission with the RBAC rule that grants it. */
export function refusedList(access: Access, kind: ListKind, status: number, namespace?: string): ClusterFailure {
  const where = namespace === undefined ? '' : ` in namespace ${namespace}`;
  return refused(`list ${kind.resource}${where} of ${access.server}`, status, grantingRule(kind));
}

/** The failure for a response with an error status. */
export function refused(what: string, status: number, rule: string): ClusterFailure {
  if (status === 403) {
    return new ClusterFailure(
      'CLUSTER_FORBIDDEN',
      `Cannot ${what}: permission denied`,
      `Grant this RBAC rule: ${rule}`,
    );
  }
  if (status === 401) {
    return new ClusterFailure(
      'CLUSTER_ACCESS',
      `Cannot ${what}: the server refused the credentials`,
      'Log in again, or check the user in the kubeconfig',
    );
  }
  return new ClusterFailure(
    'CLUSTER_UNREACHABLE',
    `Cannot ${what}: the server answered ${status}`,
    'Check the selector and the server',
    status,
  );
}

/** The failure for a successful response that is not from an API server. */
export function unexpectedResponse(what: string, wanted: string): ClusterFailure {
  return new ClusterFailure(
    'CLUSTER_UNREACHABLE',
    `Cannot ${what}: the response is not of kind ${wanted}`,
    'Check whether something other than an API server answers, such as a login page of a proxy',
  );
}

export function tooMany(access: Access, kind: ListKind): ClusterFailure {
  return new ClusterFailure(
    'INPUT_TOO_LARGE',
    `Cannot list ${kind.resource} of ${access.server}: there are more than ${clusterLimits.objectsMax}`,
    'Limit the snapshot with -n or -l',
  );
}

/** Without read permission for kube-proxy's config, Sluice's own is used; a note, because the two may differ. */
export function unreadConfigMap(access: Access): Problem {
  const { namespace, names } = kubeProxyConfigMaps;
  return notice(
    'CLUSTER_FORBIDDEN',
    `Cannot search ConfigMaps of ${namespace} of ${access.server} for kube-proxy's configuration: permission denied, and none of ${names.join(', ')} has it, so it is not used`,
    `Grant one of these RBAC rules in a Role in ${namespace}: ${configMapRule} or, for other names, ${configMapsRule}`,
  );
}

/** kube-proxy may be started by flags, or not at all; a note, because rules follow its defaults then. */
export function noConfigMap(access: Access): Problem {
  const { namespace } = kubeProxyConfigMaps;
  return notice(
    'INPUT_EMPTY',
    `No ConfigMap of ${namespace} of ${access.server} has kube-proxy's configuration, so its defaults apply where sluice.yaml sets nothing`,
    'Where flags start kube-proxy (AKS, GKE, k3s), pass them to sluice init: the DaemonSet, a static pod, or the config or Nodes of k3s',
  );
}

/** Without read permission for ServiceCIDRs, the ranges of the config are used; a note, because the two may differ. */
export function unreadServiceCIDRs({ problem }: ClusterFailure): Problem {
  const message = `${problem.message}, so serviceCIDRs of sluice.yaml, or the default, are used`;
  return { ...problem, level: 'note', message };
}
