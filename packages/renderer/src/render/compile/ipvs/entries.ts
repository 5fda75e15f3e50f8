import { compareText, nodePortSets, type SetKey, setName } from '@sluice/netfilter';
import type { Guard } from '@sluice/bundle';
import type { Endpoint } from '../../model/model.ts';
import { holdsOn } from './holds.ts';
import { type GuardedLine, lineWhere } from '../lines.ts';
import type { IpvsPort } from './port.ts';

/** The entries of a Service port in kube-proxy's sets (`syncProxyRules` in `pkg/proxy/ipvs/proxier.go`). */
export function entryLines(compiled: IpvsPort): readonly GuardedLine[] {
  const { port, here } = compiled;
  const add = adder(compiled);
  const outside = port.externalTrafficPolicy === 'Local' ? 'KUBE-EXTERNAL-IP-LOCAL' : 'KUBE-EXTERNAL-IP';
  return [
    add('KUBE-CLUSTER-IP', frontendEntry(compiled, here.clusterIP)),
    add('KUBE-IPVS-IPS', here.clusterIP),
    ...here.externalIPs.flatMap((address) => [
      add(outside, frontendEntry(compiled, address)),
      add('KUBE-IPVS-IPS', address),
    ]),
    ...here.loadBalancerIPs.flatMap((address) => balancerLines(compiled, address)),
    ...nodePortLines(compiled),
    ...loopBackLines(compiled),
  ];
}

type Add = (set: SetKey, entry: string, guard?: Guard) => GuardedLine;

function adder({ family }: IpvsPort): Add {
  return (set, entry, guard) => lineWhere(guard, `add ${setName(set, family)} ${entry}`);
}

/** `10.96.0.10,tcp:80` */
function frontendEntry({ port }: IpvsPort, address: string, number = port.port): string {
  return `${address},${port.protocol.toLowerCase()}:${number}`;
}

function balancerLines(compiled: IpvsPort, address: string): readonly GuardedLine[] {
  const { port, here } = compiled;
  const add = adder(compiled);
  const entry = frontendEntry(compiled, address);
  const ranges = here.loadBalancerSourceRanges;
  return [
    add('KUBE-LOAD-BALANCER', entry),
    ...(port.externalTrafficPolicy === 'Local' ? [add('KUBE-LOAD-BALANCER-LOCAL', entry)] : []),
    ...(ranges.length > 0 ? [add('KUBE-LOAD-BALANCER-FW', entry)] : []),
    ...ranges.map((range) => add('KUBE-LOAD-BALANCER-SOURCE-CIDR', `${entry},${range}`)),
    // A node inside the ranges connects to the address from that same address, which kube-ipvs0 carries.
    ...(ranges.length > 0 ? [add('KUBE-LOAD-BALANCER-SOURCE-IP', `${entry},${address}`, ownIn(ranges, false))] : []),
    add('KUBE-IPVS-IPS', address),
  ];
}

/** A guard for nodes whose own address is in one of the ranges, or, negated, in none. */
export function ownIn(ranges: readonly string[], negated: boolean): Guard {
  return { kind: 'ip-in', negated, values: [...new Set(ranges)].toSorted(compareText) };
}

function nodePortLines(compiled: IpvsPort): readonly GuardedLine[] {
  const { port, nodePortAddress } = compiled;
  const add = adder(compiled);
  const lines: GuardedLine[] = [];
  if (port.nodePort !== 0) {
    const entry =
      port.protocol === 'SCTP' ? frontendEntry(compiled, nodePortAddress, port.nodePort) : String(port.nodePort);
    const [all, local] = nodePortSets[port.protocol.toLowerCase() as Lowercase<typeof port.protocol>];
    lines.push(add(all, entry));
    if (port.externalTrafficPolicy === 'Local') lines.push(add(local, entry));
  }
  if (port.healthCheckNodePort !== 0) lines.push(add('KUBE-HEALTH-CHECK-NODE-PORT', String(port.healthCheckNodePort)));
  return lines;
}

/** Entries by which hairpin traffic is masqueraded, on the endpoint's own node. */
function loopBackLines(compiled: IpvsPort): readonly GuardedLine[] {
  const add = adder(compiled);
  return usedAtHome(compiled).map((endpoint) => {
    const entry = `${frontendEntry(compiled, endpoint.address, endpoint.port)},${endpoint.address}`;
    return add('KUBE-LOOP-BACK', entry, { kind: 'node', negated: false, values: [endpoint.nodeName!] });
  });
}

/** The endpoints that their own node uses, by text. */
function usedAtHome({ selection, fleet }: IpvsPort): readonly Endpoint[] {
  const used = new Set<string>();
  for (const { guard, endpoints } of [...selection.cluster, ...selection.local]) {
    const holds = holdsOn(guard, fleet);
    for (const { nodeName, text } of endpoints) if (nodeName !== undefined && holds(nodeName)) used.add(text);
  }
  return selection.all.filter(({ text }) => used.has(text));
}
