import { cidrContains, type Family, forbiddenEndpoint, nodeFile, parseCidr, valueOf } from '@sluice/bundle';
import type { Violation } from './finding.ts';
import { type ServiceEntry, hostOfText, hostsOf, lineOf } from './service-entries.ts';
import { ownersOf } from './owners.ts';
import type { PolicyContext } from './context.ts';

/** EXTERNAL_IP */
export function externalIPs(question: PolicyContext): readonly Violation[] {
  const allowed = question.settings.externalIPs ?? [];
  return eachService(question, ({ path, facts }) =>
    hostsOf(facts.ports, ['external'])
      .filter((host) => !allowed.some((cidr) => cidrContains(cidr, host)))
      .map((host) => ({
        code: 'EXTERNAL_IP',
        subject: facts.service,
        message: `Cannot accept external IP ${host}: it is not in policy.externalIPs`,
        hint: 'Remove it from the Service, or add its network to `policy.externalIPs` if it is yours',
        path,
        line: lineOf(question.view, path, `external address ${host}`),
      })),
  );
}

/** ENDPOINT_RANGE. Without a pod network in the bundle there is nothing to compare with. */
export function endpointRanges(question: PolicyContext): readonly Violation[] {
  const known = { ipv4: networksOf(question, 'ipv4'), ipv6: networksOf(question, 'ipv6') };
  return eachService(question, ({ path, facts }) => {
    const networks = known[facts.family];
    if (networks.length === 0) return [];
    const texts = new Set(facts.ports.flatMap(({ endpoints }) => endpoints.map(({ text }) => text)));
    return [...texts]
      .filter((text) => !networks.some((cidr) => cidrContains(cidr, hostOfText(text))))
      .map((text) => ({
        code: 'ENDPOINT_RANGE',
        subject: facts.service,
        message: `Cannot accept endpoint ${text}: it is neither in a pod network nor in policy.endpointRanges`,
        hint: 'Remove it, or add its network to `policy.endpointRanges`',
        path,
        line: lineOf(question.view, path, text),
      }));
  });
}

function networksOf({ view, settings }: PolicyContext, family: Family): readonly string[] {
  const pods = [...view.nodes.values()].map(({ values }) => valueOf(values, family, 'podCIDR'));
  const clusters = [...view.profiles.values()].map(({ values }) => valueOf(values, family, 'clusterCIDR'));
  const known = [...new Set([...pods, ...clusters])].filter((cidr): cidr is string => typeof cidr === 'string');
  if (known.length === 0) return [];
  return [...known, ...(settings.endpointRanges ?? [])].filter((cidr) => parseCidr(cidr)?.family === family);
}

/** ENDPOINT_LOCAL */
export function localAddresses(question: PolicyContext): readonly Violation[] {
  return eachService(question, ({ path, facts }) => {
    const endpoints = facts.ports.flatMap((port) => port.endpoints.map(({ text }) => hostOfText(text)));
    const hosts = [...hostsOf(facts.ports, ['cluster', 'external', 'load-balancer']), ...endpoints];
    return [...new Set(hosts)].flatMap((host) => {
      const why = forbiddenEndpoint(host);
      if (why === undefined) return [];
      return [
        {
          code: 'ENDPOINT_LOCAL' as const,
          subject: facts.service,
          message: `Cannot accept address ${host}: ${why}`,
          hint: 'Use an address that leads to the same host from every node',
          path,
          line: lineOf(question.view, path, host),
        },
      ];
    });
  });
}

/** ADDRESS_TAKEN */
export function takenAddresses(question: PolicyContext): readonly Violation[] {
  const ownerOf = ownersOf(question);
  return eachService(question, ({ path, facts }) =>
    (['cluster', 'external', 'load-balancer'] as const).flatMap((kind) =>
      hostsOf(facts.ports, [kind]).flatMap((host) => {
        const owner = ownerOf(host, facts.service);
        if (owner === undefined) return [];
        return [
          {
            code: 'ADDRESS_TAKEN' as const,
            subject: facts.service,
            message: `Cannot give ${kind} address ${host} to ${facts.service}: it belongs to ${owner}`,
            hint: 'Choose another address for the Service',
            path,
            line: lineOf(question.view, path, host),
          },
        ];
      }),
    ),
  );
}

/** RANGES_ONE_FAMILY */
export function rangesOfOneFamily(question: PolicyContext): readonly Violation[] {
  return eachService(question, ({ path, facts }) => {
    const others = question.services.get(`${facts.service} ${facts.family === 'ipv4' ? 'ipv6' : 'ipv4'}`) ?? [];
    const other = others.flatMap((held) => held.facts.ports);
    const isOpen =
      hostsOf(facts.ports, ['load-balancer']).length > 0 && facts.ports.every((port) => port.sourceRanges.length === 0);
    // Ranges in one family show the intent to restrict, even without a load-balancer address in that family.
    const isClosed = other.some(({ sourceRanges }) => sourceRanges.length > 0);
    if (!isOpen || !isClosed) return [];
    return [
      {
        code: 'RANGES_ONE_FAMILY',
        subject: facts.service,
        message: `Cannot accept source ranges of one family: the ${facts.family} addresses of the load balancer are open to all sources`,
        hint: `Add an ${facts.family} network to loadBalancerSourceRanges`,
        path,
        line: 1,
      },
    ];
  });
}

/** Applies a rule to every Service of the bundle. */
export function eachService(question: PolicyContext, ask: (held: ServiceEntry) => readonly Violation[]): readonly Violation[] {
  return [...question.services.values()].flatMap((list) => list.flatMap(ask));
}

/** The file of a node, for findings about it. */
export const placeOfNode = (name: string): Pick<Violation, 'path' | 'line'> => ({ path: nodeFile(name), line: 1 });
