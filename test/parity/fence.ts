import type { KubeItem } from './api-server.ts';
import { plainService } from './plain-service.ts';

/** A Service that marks the end of a change: its addresses are new in each state of a cluster, and are written once all earlier ones are. */

const isIn = (text: string, address: string): boolean =>
  new RegExp(`${address.replaceAll('.', '\\.')}(?![0-9a-f])`).test(text);

/** The Service and its slices in a state of the cluster. @param count of states so far */
export const fenceOf = (count: number): readonly KubeItem[] =>
  plainService({
    namespace: 'fence',
    name: 'fence',
    clusterIPs: [`10.96.1.${count % 250}`, `fd00:10:96::1:${count}`],
    port: { name: 'p', port: 9, targetPort: 9 },
    endpoints: { IPv4: [`10.244.2.${count % 250}`], IPv6: [`fd00:10:244:2::1:${count}`] },
    nodeName: 'node-2',
    zone: 'zone-1',
  });

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
