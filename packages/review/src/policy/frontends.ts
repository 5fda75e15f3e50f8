import { addressOfEndpoint, compareText, externalIPsEnd, modeFacts } from '@sluice/netfilter';
import { hostsOf, type ServiceEntry } from '../facts/service-entries.ts';
import { eachProfile, eachService, type PolicyContext } from './context.ts';
import type { Violation } from './finding.ts';

/** EXTERNAL_IP_DEPRECATED: once for each Service and family. */
export function deprecatedExternalIPs(context: PolicyContext): readonly Violation[] {
  return eachService(context, ({ facts }) => {
    const hosts = hostsOf(facts.ports, ['external']);
    if (hosts.length === 0) return [];
    return {
      code: 'EXTERNAL_IP_DEPRECATED',
      message: `Cannot rely on external IP ${hosts.join(', ')}: external IPs are ${externalIPsEnd}`,
      hint: 'Use type LoadBalancer, or set `featureGates: {AllowServiceExternalIPs: true}` in time: /usr/share/doc/sluice/adopt.md',
      at: `external address ${hosts[0]}`,
    };
  });
}

/** MODE_ENDS: once for each profile. */
export function endingModes(context: PolicyContext): readonly Violation[] {
  return eachProfile(context, ({ mode }) => {
    const { ends } = modeFacts[mode];
    if (ends === undefined) return [];
    return {
      code: 'MODE_ENDS',
      message: `Cannot rely on mode ${mode} of kube-proxy: it is ${ends}`,
      hint: 'Nodes with Sluice can keep it, but not go back to a kube-proxy without it; change to mode nftables or iptables: /usr/share/doc/sluice/adopt.md, "A change of Sluice\'s own mode"',
      at: 'mode:',
    };
  });
}

/** FRONTEND_OVERLAP and ADDRESS_SHARED: the first Service by name has the frontend, and each further one is a finding. */
export function overlaps(context: PolicyContext): readonly Violation[] {
  const holders = { frontends: new Map<string, string>(), hosts: new Map<string, string>() };
  const entries = [...context.services.values()].flat();
  for (const { facts } of entries.toSorted((a, b) => compareText(a.facts.service, b.facts.service))) {
    for (const frontend of frontendsOf(facts)) keep(holders.frontends, frontend.text, facts.service);
    for (const host of hostsOf(facts.ports, outside)) keep(holders.hosts, host, facts.service);
  }
  const otherThan = (holder: string | undefined, service: string): string | undefined =>
    holder === service ? undefined : holder;
  return eachService(context, ({ facts }) => {
    const taken = frontendsOf(facts).flatMap(({ text, search, host }) => {
      const holder = otherThan(holders.frontends.get(text), facts.service);
      return holder === undefined ? [] : [{ text, host, holder, at: search }];
    });
    const inUse = new Set(taken.map(({ host }) => host));
    const shared = hostsOf(facts.ports, outside).flatMap((host) => {
      const holder = inUse.has(host) ? undefined : otherThan(holders.hosts.get(host), facts.service);
      return holder === undefined ? [] : [{ host, holder }];
    });
    return [
      ...taken.map((one) => ({
        code: 'FRONTEND_OVERLAP' as const,
        message: `Cannot give ${one.text} to ${facts.service}: ${one.holder} has it`,
        hint: 'Change the address or the port of one of the two, and render again',
        at: one.at,
      })),
      ...shared.map((one) => ({
        code: 'ADDRESS_SHARED' as const,
        message: `Cannot move ${one.host} for ${facts.service} alone: ${one.holder} has the address, too`,
        hint: 'Waive the finding if the two Services are meant to share it',
        at: one.host,
      })),
    ];
  });
}

/** Cluster addresses are not among them: ADDRESS_TAKEN finds those. */
const outside = ['external', 'load-balancer'] as const;

interface Frontend {
  /** `203.0.113.9:80/TCP`, `node port 30080/TCP` */
  readonly text: string;
  /** What its line in the file has. */
  readonly search: string;
  /** The address; undefined for a node port. */
  readonly host?: string;
}

function frontendsOf({ ports }: ServiceEntry['facts']): readonly Frontend[] {
  return ports.flatMap(({ protocol, addresses, nodePort }) => [
    ...addresses
      .filter(({ kind }) => kind !== 'cluster')
      .map(({ text }) => ({
        text: `${text}/${protocol.toUpperCase()}`,
        search: addressOfEndpoint(text),
        host: addressOfEndpoint(text),
      })),
    ...(nodePort === 0
      ? []
      : [{ text: `node port ${nodePort}/${protocol.toUpperCase()}`, search: `node port ${nodePort}` }]),
  ]);
}

function keep(holders: Map<string, string>, key: string, service: string): void {
  if (!holders.has(key)) holders.set(key, service);
}
