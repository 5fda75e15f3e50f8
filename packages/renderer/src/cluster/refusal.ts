import type { Problem } from '@sluice/bundle';
import type { Access } from './access.ts';
import { ClusterFailure } from './failure.ts';
import { configMapRule, grantingRule, kubeProxyConfigMap, type ListedKind } from './kinds.ts';
import { clusterLimits } from './limits.ts';

/** What an answer that is no list means. A missing right is named with the rule that grants it. */
export function refusedList(access: Access, kind: ListedKind, status: number, namespace?: string): ClusterFailure {
  const where = namespace === undefined ? '' : ` in namespace ${namespace}`;
  return refused(`list ${kind.resource}${where} of ${access.server}`, status, grantingRule(kind));
}

/** What an answer other than success means, for any request. */
export function refused(what: string, status: number, rule: string): ClusterFailure {
  if (status === 403) {
    return new ClusterFailure(
      'CLUSTER_FORBIDDEN',
      `Cannot ${what}: the account has no right to`,
      `This rule grants it: ${rule}`,
    );
  }
  if (status === 401) {
    return new ClusterFailure(
      'CLUSTER_ACCESS',
      `Cannot ${what}: it does not accept the credentials`,
      'Log in again, or check the user in the kubeconfig',
    );
  }
  return new ClusterFailure(
    'CLUSTER_UNREACHABLE',
    `Cannot ${what}: it answered ${status}`,
    'Check the selector and the server',
  );
}

/** Something answers with success, and not as an API server does. */
export function strangeAnswer(what: string, wanted: string): ClusterFailure {
  return new ClusterFailure(
    'CLUSTER_UNREACHABLE',
    `Cannot ${what}: the answer is no ${wanted}`,
    'Look whether something other than an API server answers there, such as a proxy that asks for a login',
  );
}

export function tooMany(access: Access, kind: ListedKind): ClusterFailure {
  return new ClusterFailure(
    'INPUT_TOO_LARGE',
    `Cannot list ${kind.resource} of ${access.server}: there are more than ${clusterLimits.objectsMax}`,
    'Limit the snapshot with -n or -l',
  );
}

/** A cluster whose kube-proxy config may not be read is rendered with Sluice's own; said, because the two may differ. */
export function unreadConfigMap(access: Access): Problem {
  const { namespace, name } = kubeProxyConfigMap;
  return {
    code: 'CLUSTER_FORBIDDEN',
    level: 'note',
    message: `Cannot read ConfigMap ${namespace}/${name} of ${access.server}: the account has no right to, so kube-proxy's configuration is left out`,
    hint: `This rule of a Role in ${namespace} grants it: ${configMapRule}`,
  };
}

/** A cluster whose ServiceCIDRs may not be read is rendered with the ranges of the config; said, because the two may differ. */
export function unreadServiceCIDRs({ problem }: ClusterFailure): Problem {
  const message = `${problem.message}, so serviceCIDRs of sluice.yaml, or the default, hold`;
  return { ...problem, level: 'note', message };
}
