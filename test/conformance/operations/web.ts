import type { Host } from '../../netns/cluster-host.ts';
import { until } from '../../netns/until.ts';
import type { RealCluster } from '../cluster.ts';
import type { ControlPlane } from '../control-plane.ts';

/** A Deployment of web servers that end as clients need it: not ready first, and serving for some seconds more. */
export interface Web {
  readonly name: string;
  /** Of its Service. */
  readonly address: string;
}

/**
 * Makes a Deployment with a Service of that name, and waits until its pods are ready.
 * @param nodes where its pods may run; all without it
 * @param surge how many pods more than that there may be while it is rolled
 */
export async function startWeb(
  { plane: { kubectl }, images }: RealCluster,
  name: string,
  replicas: number,
  nodes: readonly string[] = [],
  surge = 2,
): Promise<Web> {
  const labels = { app: name };
  const terms = [{ matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: nodes }] }];
  const affinity = {
    nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms } },
  };
  const server = {
    name: 'web',
    image: images.agnhost,
    // Ready once it also serves UDP.
    args: ['netexec', '--http-port=8080', '--delay-shutdown=15'],
    readinessProbe: { httpGet: { path: '/readyz', port: 8080 }, periodSeconds: 1 },
  };
  const pod = {
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: 30,
    ...(nodes.length === 0 ? {} : { affinity }),
    containers: [server],
  };
  const deployment = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      strategy: { rollingUpdate: { maxUnavailable: 0, maxSurge: surge } },
      template: { metadata: { labels }, spec: pod },
    },
  };
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name },
    spec: { selector: labels, ports: [{ port: 80, targetPort: 8080 }] },
  };
  await kubectl(['apply', '-f', '-'], [deployment, service].map((one) => JSON.stringify(one)).join('\n---\n'));
  await rolledOut(kubectl, name, replicas);
  return { name, address: await kubectl(['get', 'service', name, '-o', 'jsonpath={.spec.clusterIP}']) };
}

/** Waits until all pods of a Deployment are ready. @throws Error after a time by their number */
export async function rolledOut(kubectl: ControlPlane['kubectl'], name: string, replicas: number): Promise<void> {
  const status = ['rollout', 'status', `deployment/${name}`, '--timeout=110s'];
  // One process waits for two minutes at most.
  for (let more = Math.floor(replicas / 10); ; more--)
    try {
      return void (await kubectl(status));
    } catch (error) {
      if (more <= 0) throw error;
    }
}

/** Waits until a Service answers on each node. @throws Error after a minute */
export async function untilAnswered({ nodes }: RealCluster, { name, address }: Web): Promise<void> {
  const isAnswered = async (): Promise<boolean> => {
    const asked = [...nodes.values()].map((host) =>
      host.exec(['curl', '-sf', '--max-time', '2', `http://${address}/hostname`]),
    );
    return (await Promise.all(asked)).every(({ stdout }) => stdout.startsWith(name));
  };
  await until(`${name} answers on each node`, isAnswered, 60_000);
}

/** @throws Error where the cluster has no such node */
export function nodeOf({ nodes }: RealCluster, name: string): Host {
  const host = nodes.get(name);
  if (host === undefined) throw new Error(`The cluster has no node ${name}`);
  return host;
}
