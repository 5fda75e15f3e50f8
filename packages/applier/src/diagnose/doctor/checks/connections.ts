import { type Finding, printEndpoint } from '@sluice/netfilter';
import type { EndpointConnections, Facts, Frontend, LiveAnswer } from '../facts.ts';
import { localAddresses } from '../packets.ts';
import { printFrontendOf } from '../target.ts';

/** A fuller table than this drops connections in bursts. */
const fillMax = 0.95;

/** Shorter than this, an idle connection of a pool or a database is forgotten between two queries. Seconds; kube-proxy sets a day and an hour. */
const timeoutsMin = {
  'net/netfilter/nf_conntrack_tcp_timeout_established': 300,
  'net/netfilter/nf_conntrack_udp_timeout_stream': 20,
  'net/netfilter/nf_conntrack_udp_timeout': 5,
  'net/netfilter/nf_conntrack_tcp_timeout_syn_recv': 10,
} as const;

/** Fewer silent connections may be ones that started a moment ago. */
const unansweredMin = 2;

/** Source ports of the kernel's own choice for one endpoint; masquerading picks from 1024 to 65535. */
const masqueradePorts = 64_512;

/** Tracked connections: how full the table is, and what it tells of endpoints. */
export function connectionChecks(frontends: readonly Frontend[], facts: Facts): readonly Finding[] {
  const { conntrack, sysctls, counters } = facts;
  const found: Finding[] = [];
  if (conntrack && conntrack.max > 0 && conntrack.count >= conntrack.max * fillMax)
    found.push({
      code: 'CONNTRACK_FULL',
      certainty: 'certain',
      evidence: [
        `${conntrack.count} of ${conntrack.max} entries are used`,
        ...(counters ? [`${counters.dropped} packets dropped, ${counters.earlyDropped} connections evicted`] : []),
      ],
      fix: `sysctl -w net.netfilter.nf_conntrack_max=${conntrack.max * 2}`,
    });
  for (const [key, least] of Object.entries(timeoutsMin)) {
    const value = sysctls?.get(key);
    if (value !== undefined && Number(value) < least)
      found.push({
        code: 'CONNTRACK_TIMEOUT_SHORT',
        certainty: 'likely',
        about: key.slice(key.lastIndexOf('/') + 1),
        evidence: [`${key.replaceAll('/', '.')} is ${value} s`],
        fix: `sysctl -w ${key.replaceAll('/', '.')}=${defaults[key] ?? ''}`,
      });
  }
  return [
    ...found,
    ...staleChecks(frontends, facts),
    ...untranslatedChecks(frontends, facts),
    ...endpointChecks(frontends, facts),
    ...clashChecks(facts),
  ];
}

/** The kernel's own values; of established connections kube-proxy's. */
const defaults: Readonly<Record<string, string>> = {
  'net/netfilter/nf_conntrack_tcp_timeout_established': '86400',
  'net/netfilter/nf_conntrack_udp_timeout_stream': '120',
  'net/netfilter/nf_conntrack_udp_timeout': '30',
  'net/netfilter/nf_conntrack_tcp_timeout_syn_recv': '60',
};

function staleChecks(frontends: readonly Frontend[], { conntrack }: Facts): readonly Finding[] {
  const asked = new Set(
    frontends.filter(({ protocol }) => protocol === 'udp').map(({ port, family }) => `${family} ${port}`),
  );
  const stale = (conntrack?.stale ?? []).filter(({ family, port }) => asked.has(`${family} ${port}`));
  const [first] = stale;
  if (!first) return [];
  const { address, port, endpoint = '' } = first;
  const original = address === undefined ? [] : [`--orig-dst ${address}`];
  return [
    {
      code: 'STALE_CONNECTIONS',
      certainty: 'certain',
      about: address === undefined ? `node port ${port}/udp` : `${printEndpoint(address, port)}/udp`,
      evidence: stale.map(
        (flow) =>
          `connections to ${flow.address === undefined ? `node port ${flow.port}` : printEndpoint(flow.address, flow.port)} lead to ${flow.endpoint ?? 'no endpoint'}, which it no longer has`,
      ),
      fix: [
        'conntrack -D -p udp',
        ...original,
        `--orig-port-dst ${port}`,
        ...(endpoint === ''
          ? []
          : [`--reply-src ${endpoint.slice(0, endpoint.lastIndexOf(':')).replaceAll(/[[\]]/g, '')}`]),
      ].join(' '),
    },
  ];
}

/**
 * A client that began before the Service had its rules, from a port that it uses again: a tracked connection is never translated later.
 * Mode ipvs translates without connection tracking, and the entries there look so always.
 */
function untranslatedChecks(frontends: readonly Frontend[], facts: Facts): readonly Finding[] {
  const { conntrack, desired } = facts;
  if (!conntrack || conntrack.untranslated.size === 0 || desired?.mode === 'ipvs') return [];
  return frontends.flatMap((one): Finding[] => {
    if (one.protocol !== 'tcp' || one.endpoints.length === 0) return [];
    const addresses = one.address === undefined ? localAddresses(facts) : [one.address];
    const stuck = addresses.filter((address) => conntrack.untranslated.has(printEndpoint(address, one.port)));
    return stuck.map((address) => ({
      code: 'STALE_CONNECTIONS',
      certainty: 'certain',
      about: `${printEndpoint(address, one.port)}/tcp`,
      evidence: [
        `a connection to ${printEndpoint(address, one.port)} began before rules translated it (SYN_SENT, no reply): while its client retries from the same port, it stays so`,
      ],
      fix: `conntrack -D -p tcp --orig-dst ${address} --orig-port-dst ${one.port}`,
    }));
  });
}

function endpointChecks(frontends: readonly Frontend[], { conntrack, live }: Facts): readonly Finding[] {
  const found: Finding[] = [];
  const seen = new Set<string>();
  for (const frontend of frontends) {
    for (const { text } of frontend.endpoints) {
      const key = `${text} ${frontend.protocol}`;
      const [connections, answer] = [conntrack?.endpoints.get(key), live?.answers.get(text)];
      // Most of 50,000 endpoints have neither.
      if ((connections === undefined && answer === undefined) || seen.has(key)) continue;
      seen.add(key);
      const finding = endpointFinding(text, frontend, connections, answer);
      if (finding) found.push(finding);
      if (connections && connections.masqueraded > masqueradePorts * fillMax)
        found.push({
          code: 'MASQUERADE_PORTS_EXHAUSTED',
          certainty: 'certain',
          about: text,
          evidence: [
            `${connections.masqueraded} masqueraded connections to ${text}; there are ${masqueradePorts} source ports`,
          ],
          fix: `conntrack -L -p ${frontend.protocol} --reply-src ${text.slice(0, text.lastIndexOf(':'))} | head`,
        });
    }
  }
  return found;
}

function endpointFinding(
  endpoint: string,
  frontend: Frontend,
  connections: EndpointConnections | undefined,
  live: LiveAnswer | undefined,
): Finding | undefined {
  const about = `${frontend.service ?? printFrontendOf(frontend)} at ${endpoint}`;
  const service = frontend.service?.split(':')[0]?.split('/');
  const fix = service
    ? `kubectl -n ${service[0] ?? ''} describe service ${service[1] ?? ''}`
    : `kubectl get pods -A -o wide`;
  const certainty = live === undefined ? 'likely' : 'certain';
  const lives =
    live === undefined || live === 'answered'
      ? []
      : [`a connection of this node to ${endpoint} is ${live === 'refused' ? 'refused' : 'not answered'}`];
  if (live === 'answered') return undefined;
  if (live === 'refused') return { code: 'ENDPOINT_REFUSES', certainty, about, evidence: lives, fix };
  const { answered, silent } = connections ?? { answered: 0, silent: 0 };
  const isSilent = live !== undefined || (silent >= unansweredMin && answered === 0);
  if (!isSilent) return undefined;
  return {
    code: 'ENDPOINT_SILENT',
    certainty,
    about,
    evidence: [...lives, `of tracked connections to ${endpoint} ${silent} have no reply, ${answered} have`],
    fix,
  };
}

/** Since the namespace exists; a few clashes are resolved by a retry. */
const insertFailedMin = 100;

function clashChecks({ counters }: Facts): readonly Finding[] {
  if (!counters || counters.insertFailed < insertFailedMin) return [];
  return [
    {
      code: 'CONNTRACK_CLASHES',
      certainty: 'note',
      evidence: [`${counters.insertFailed} connections could not be inserted since the boot`],
      fix: 'conntrack -S',
    },
  ];
}
