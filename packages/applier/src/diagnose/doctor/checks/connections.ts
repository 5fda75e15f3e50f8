import { addressOfEndpoint, type Finding, printEndpoint } from '@sluice/netfilter';
import type { EndpointConnections, Facts, Frontend, LiveAnswer } from '../facts.ts';
import { localAddresses } from '../packets.ts';
import type { TrackedFlow } from '../../../ports/kernel.ts';
import { printFrontendOf } from '../target.ts';

/** A fuller table than this drops connections in bursts. */
const fillMax = 0.95;

/**
 * Times in seconds, below `net/netfilter`: with less than `least` an idle connection of a pool or a database is forgotten between two queries.
 * `usual` is the kernel's own, of established connections kube-proxy's.
 */
const timeouts = {
  nf_conntrack_tcp_timeout_established: { least: 300, usual: 86_400 },
  nf_conntrack_udp_timeout_stream: { least: 20, usual: 120 },
  nf_conntrack_udp_timeout: { least: 5, usual: 30 },
  nf_conntrack_tcp_timeout_syn_recv: { least: 10, usual: 60 },
} as const;

/** Fewer silent connections may be ones that started a moment ago. */
const unansweredMin = 2;

/** Since the namespace exists; a few clashes are resolved by a retry. */
const insertFailedMin = 100;

/** Source ports of the kernel's own choice for one endpoint; masquerading picks from 1024 to 65535. */
const masqueradePorts = 64_512;

/** Tracked connections: how full the table is, and what it tells of endpoints. */
export function* connectionChecks(frontends: readonly Frontend[], facts: Facts): Iterable<Finding> {
  const { conntrack, sysctls, counters } = facts;
  if (conntrack && conntrack.max > 0 && conntrack.count >= conntrack.max * fillMax)
    yield {
      code: 'CONNTRACK_FULL',
      certainty: 'certain',
      evidence: [
        `${conntrack.count} of ${conntrack.max} entries are used`,
        ...(counters ? [`${counters.dropped} packets dropped, ${counters.earlyDropped} connections evicted`] : []),
      ],
      fix: `sysctl -w net.netfilter.nf_conntrack_max=${conntrack.max * 2}`,
    };
  for (const [name, { least, usual }] of Object.entries(timeouts)) {
    const value = sysctls?.get(`net/netfilter/${name}`);
    if (value !== undefined && Number(value) < least)
      yield {
        code: 'CONNTRACK_TIMEOUT_SHORT',
        certainty: 'likely',
        about: name,
        evidence: [`net.netfilter.${name} is ${value} s`],
        fix: `sysctl -w net.netfilter.${name}=${usual}`,
      };
  }
  yield* staleChecks(frontends, facts);
  yield* untranslatedChecks(frontends, facts);
  yield* endpointChecks(frontends, facts);
  if (counters && counters.insertFailed >= insertFailedMin)
    yield {
      code: 'CONNTRACK_CLASHES',
      certainty: 'note',
      evidence: [`${counters.insertFailed} connections could not be inserted since the boot`],
      fix: 'conntrack -S',
    };
}

function* staleChecks(frontends: readonly Frontend[], { conntrack }: Facts): Iterable<Finding> {
  const asked = new Set(
    frontends.filter(({ protocol }) => protocol === 'udp').map(({ port, family }) => `${family} ${port}`),
  );
  const stale = (conntrack?.stale ?? []).filter(({ family, port }) => asked.has(`${family} ${port}`));
  const [first] = stale;
  if (!first) return;
  const { address, port, endpoint = '' } = first;
  const to = (flow: Pick<TrackedFlow, 'address' | 'port'>): string =>
    flow.address === undefined ? `node port ${flow.port}` : printEndpoint(flow.address, flow.port);
  yield {
    code: 'STALE_CONNECTIONS',
    certainty: 'certain',
    about: `${to(first)}/udp`,
    evidence: stale.map(
      (flow) => `connections to ${to(flow)} lead to ${flow.endpoint ?? 'no endpoint'}, which it no longer has`,
    ),
    fix: [
      'conntrack -D -p udp',
      ...(address === undefined ? [] : [`--orig-dst ${address}`]),
      `--orig-port-dst ${port}`,
      ...(endpoint === '' ? [] : [`--reply-src ${addressOfEndpoint(endpoint)}`]),
    ].join(' '),
  };
}

/**
 * A client that began before the Service had its rules, from a port that it uses again: a tracked connection is never translated later.
 * Mode ipvs translates without connection tracking, and the entries there look so always.
 */
function* untranslatedChecks(frontends: readonly Frontend[], facts: Facts): Iterable<Finding> {
  const { conntrack, desired } = facts;
  if (!conntrack || conntrack.untranslated.size === 0 || desired?.mode === 'ipvs') return;
  for (const { protocol, endpoints, address: only, port } of frontends) {
    if (protocol !== 'tcp' || endpoints.length === 0) continue;
    for (const address of only === undefined ? localAddresses(facts) : [only]) {
      const place = printEndpoint(address, port);
      if (!conntrack.untranslated.has(place)) continue;
      yield {
        code: 'STALE_CONNECTIONS',
        certainty: 'certain',
        about: `${place}/tcp`,
        evidence: [
          `a connection to ${place} began before rules translated it (SYN_SENT, no reply): while its client retries from the same port, it stays so`,
        ],
        fix: `conntrack -D -p tcp --orig-dst ${address} --orig-port-dst ${port}`,
      };
    }
  }
}

function* endpointChecks(frontends: readonly Frontend[], { conntrack, live }: Facts): Iterable<Finding> {
  const seen = new Set<string>();
  for (const frontend of frontends) {
    for (const { text } of frontend.endpoints) {
      const key = `${text} ${frontend.protocol}`;
      const [connections, answer] = [conntrack?.endpoints.get(key), live?.answers.get(text)];
      // Most of 50,000 endpoints have neither.
      if ((connections === undefined && answer === undefined) || seen.has(key)) continue;
      seen.add(key);
      yield* endpointFindings(text, frontend, answer, connections);
      if (connections && connections.masqueraded > masqueradePorts * fillMax)
        yield {
          code: 'MASQUERADE_PORTS_EXHAUSTED',
          certainty: 'certain',
          about: text,
          evidence: [
            `${connections.masqueraded} masqueraded connections to ${text}; there are ${masqueradePorts} source ports`,
          ],
          fix: `conntrack -L -p ${frontend.protocol} --reply-src ${text.slice(0, text.lastIndexOf(':'))} | head`,
        };
    }
  }
}

function* endpointFindings(
  endpoint: string,
  frontend: Frontend,
  live: LiveAnswer | undefined,
  { answered, silent }: Pick<EndpointConnections, 'answered' | 'silent'> = { answered: 0, silent: 0 },
): Iterable<Finding> {
  const about = `${frontend.service ?? printFrontendOf(frontend)} at ${endpoint}`;
  const service = frontend.service?.split(':')[0]?.split('/');
  const fix = service
    ? `kubectl -n ${service[0] ?? ''} describe service ${service[1] ?? ''}`
    : `kubectl get pods -A -o wide`;
  if (live === 'answered') return;
  if (live === 'refused') {
    const evidence = [`a connection of this node to ${endpoint} is refused`];
    yield { code: 'ENDPOINT_REFUSES', certainty: 'certain', about, evidence, fix };
  } else if (live !== undefined || (silent >= unansweredMin && answered === 0))
    yield {
      code: 'ENDPOINT_SILENT',
      certainty: live === undefined ? 'likely' : 'certain',
      about,
      evidence: [
        ...(live === undefined ? [] : [`a connection of this node to ${endpoint} is not answered`]),
        `of tracked connections to ${endpoint} ${silent} have no reply, ${answered} have`,
      ],
      fix,
    };
}
