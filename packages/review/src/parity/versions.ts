import { localEndpoints, usable } from '../bundle/endpoints.ts';
import type { Observation } from '@sluice/bundle';
import {
  type Family,
  type Mode,
  type ProblemCode,
  readLiveSets,
  setName,
  type TransportProtocol,
} from '@sluice/netfilter';
import { endpointsOf } from '../prove/connection.ts';
import { verdictOf } from '../prove/mode-differences.ts';
import type { DifferingCase, ObservedProxy } from './differing-case.ts';

/** The documented differences of versions that rules do not follow and packets can show: docs/kube-proxy-versions.md. */
export type VersionDifference = Extract<
  ProblemCode,
  'VERSION_ZERO_RANGE' | 'VERSION_EARLY_CHECKS' | 'VERSION_LOCALHOST_REJECTS' | 'VERSION_LOCALHOST_LISTENER'
>;

interface Reason {
  readonly code: VersionDifference;
  /** The mode of both sides. */
  readonly mode: Mode;
  /** Whether the observed version, a minor one of Kubernetes 1, does so. */
  readonly isOf: (minor: number) => boolean;
  readonly holds: (of: DifferingCase) => boolean;
  /** What these versions do, after `kube-proxy 1.31`. */
  readonly does: string;
  readonly advice: string;
}

/** Reads version and restrictions out of an observation. */
export function observedProxy({ tools, sets }: Observation, family: Family): ObservedProxy {
  const minor = /^(?:Kubernetes )?v1\.(\d{1,3})\./.exec(tools['kube-proxy'] ?? '')?.[1];
  const restricted = readLiveSets(sets).get(setName('KUBE-LOAD-BALANCER-FW', family))?.entries ?? new Set();
  return { minor: minor === undefined ? undefined : Number(minor), restricted };
}

/**
 * The documented difference of the observed version that explains a case.
 * @returns undefined: none does, or the version is not known
 */
export function versionDifference(
  of: DifferingCase,
): { readonly code: VersionDifference; readonly advice: string } | undefined {
  const { proxy, modes } = of;
  const { minor } = proxy;
  if (minor === undefined || !modes.observed.includes(modes.desired)) return undefined;
  const reason = reasons.find(({ isOf, mode, holds }) => isOf(minor) && mode === modes.desired && holds(of));
  return (
    reason && {
      code: reason.code,
      advice: `kube-proxy 1.${minor} in mode ${reason.mode} ${reason.does}: ${reason.advice}`,
    }
  );
}

const before =
  (since: number) =>
  (minor: number): boolean =>
    minor < since;

const accept = 'accept the difference if later versions are right for your clients';

/** Each matches the exact form that it explains. */
const reasons: readonly Reason[] = [
  {
    // `hash:ip,port,net` takes no prefix length 0, so the set has the other ranges alone.
    code: 'VERSION_ZERO_RANGE',
    mode: 'ipvs',
    isOf: before(34),
    does: 'ignores a source range of all addresses (0.0.0.0/0, ::/0) and drops clients that are in no other range',
    advice: `${accept}. If the Service has no such range, its loadBalancerSourceRanges were removed since: observe again`,
    holds: ({ frontend, observed, desired, proxy }) =>
      frontend?.role === 'load-balancer' &&
      frontend.declared.notes.sourceRanges.length === 0 &&
      verdictOf(observed) === 'drop' &&
      verdictOf(desired) !== 'drop' &&
      proxy.restricted.has(entryOf(frontend.destination)),
  },
  {
    code: 'VERSION_EARLY_CHECKS',
    mode: 'nftables',
    isOf: before(33),
    does: 'drops packets of the node itself to an outer address that policy Local leaves without an endpoint there',
    advice: accept,
    holds: (of) => {
      const { frontend, node } = of;
      if (!frontend || !isOfNode(of) || !['external', 'load-balancer', 'node-port'].includes(frontend.role))
        return false;
      const endpoints = endpointsOf(frontend);
      return (
        frontend.declared.notes.externalPolicy === 'Local' &&
        localEndpoints(endpoints, node).length === 0 &&
        usable(endpoints).length > 0 &&
        verdictOf(of.observed) === 'drop' &&
        verdictOf(of.desired) === 'dnat'
      );
    },
  },
  {
    code: 'VERSION_EARLY_CHECKS',
    mode: 'nftables',
    isOf: before(33),
    does: 'rejects packets of the node itself to a Service without endpoints before it asks for source ranges',
    advice: accept,
    holds: (of) =>
      isOfNode(of) &&
      of.frontend?.role === 'load-balancer' &&
      of.frontend.declared.notes.sourceRanges.length > 0 &&
      usable(endpointsOf(of.frontend)).length === 0 &&
      verdictOf(of.observed) === 'reject' &&
      verdictOf(of.desired) === 'drop',
  },
  {
    // Gate KubeProxyNFTablesLocalhostNodePorts: nodeport-endpoints-check asks the map localhost-nodeport-reject-ports.
    code: 'VERSION_LOCALHOST_REJECTS',
    mode: 'nftables',
    isOf: (minor) => minor >= 38,
    does: 'rejects packets to node ports on localhost',
    advice:
      'accept the difference: either way no node port answers there, and a client that is not refused may reach a program of the node that listens on this port',
    holds: ({ row, frontend, observed, desired }) =>
      row.destination.kind === 'localhost' &&
      frontend?.role === 'node-port' &&
      verdictOf(observed) === 'reject' &&
      verdictOf(desired) === 'pass',
  },
  {
    // The same gate, where a CIDR of nodePortAddresses other than a whole family contains the address: `proxy/nftables/localhost.go`.
    code: 'VERSION_LOCALHOST_LISTENER',
    mode: 'nftables',
    isOf: (minor) => minor >= 38,
    does: 'serves node ports on localhost by a listener of its own, of TCP alone, which no rule shows',
    advice:
      'accept the difference: Sluice translates these packets in IPv4, for all protocols, and has a listener in IPv6; a Service without endpoints refuses. `ss -ltnp` on the node shows whether kube-proxy listens there',
    holds: ({ row, frontend, observed, desired }) =>
      row.destination.kind === 'localhost' &&
      frontend?.role === 'node-port' &&
      verdictOf(observed) === (row.destination.protocol === 'tcp' ? 'pass' : 'reject') &&
      verdictOf(desired) !== 'pass',
  },
];

const isOfNode = ({ row }: DifferingCase): boolean => row.source.class === 'node';

const entryOf = (of: {
  readonly address: string;
  readonly port: number;
  readonly protocol: TransportProtocol;
}): string => `${of.address},${of.protocol}:${of.port}`;
