import type { KubeItem } from './api-server.ts';

/** A Service that marks the end of a change: its addresses are new in each state of a cluster, and are written once all earlier ones are. */

const isIn = (text: string, address: string): boolean =>
  new RegExp(`${address.replaceAll('.', '\\.')}(?![0-9a-f])`).test(text);

/** The Service and its slices in a state of the cluster. @param count of states so far */
export function fenceOf(count: number): readonly KubeItem[] {
  const clusterIPs = [`10.96.1.${count % 250}`, `fd00:10:96::1:${count}`];
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'fence', namespace: 'fence' },
    spec: {
      type: 'ClusterIP',
      clusterIP: clusterIPs[0],
      clusterIPs,
      ipFamilies: ['IPv4', 'IPv6'],
      ipFamilyPolicy: 'RequireDualStack',
      ports: [{ name: 'p', protocol: 'TCP', port: 9, targetPort: 9 }],
      sessionAffinity: 'None',
      internalTrafficPolicy: 'Cluster',
    },
    status: { loadBalancer: {} },
  };
  const slices = [`10.244.2.${count % 250}`, `fd00:10:244:2::1:${count}`].map((address, index) => ({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: `fence-${index}`, namespace: 'fence', labels: { 'kubernetes.io/service-name': 'fence' } },
    addressType: index === 0 ? 'IPv4' : 'IPv6',
    ports: [{ name: 'p', protocol: 'TCP', port: 9 }],
    endpoints: [
      {
        addresses: [address],
        conditions: { ready: true, serving: true, terminating: false },
        nodeName: 'node-2',
        zone: 'zone-1',
      },
    ],
  }));
  return [service, ...slices];
}

/** The addresses of the fence of a state that rules of both families do not have. */
export const absentOfFence = (count: number, rules: string): readonly string[] =>
  [`10.96.1.${count % 250}`, `10.244.2.${count % 250}`, `fd00:10:96::1:${count}`, `fd00:10:244:2::1:${count}`].filter(
    (address) => !isIn(rules, address),
  );

/** Whether a line of `ipvsadm`, `ipset` or `ip` belongs to the fence: only it has port 9. */
export const isOfFence = (line: string): boolean =>
  /[:\]]9(?: |$)|,tcp:9(?:,|$)|(?:^| )(?:10\.96\.1\.|fd00:10:96::1:)/.test(line);

export function withoutFence(saved: string): string {
  const lines = saved.split('\n');
  const chains = lines.flatMap((line) => /^-A (KUBE-(?:SVC|SEP)-\S+) .*"fence\/fence/.exec(line)?.[1] ?? []);
  return lines
    .filter((line) => !line.includes('"fence/fence') && !chains.some((chain) => line.startsWith(`:${chain} `)))
    .join('\n');
}
