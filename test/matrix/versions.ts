import { objectDifferences, ruleDifferences } from '../../packages/renderer/src/render/versions/differences.ts';
import type { KubeProxyVersion } from '../../packages/renderer/src/render/model/version.ts';
import type { Input, Question } from './cluster.ts';

/** A field that kube-proxy read differently in another version, as rules follow it. */
export interface VersionRow {
  readonly field: string;
  /** The function that makes the difference. */
  readonly by: string;
  /** What shows it; absent: the field's own row. */
  readonly shown?: { readonly input: Input; readonly ask: Question };
}

const toService: Question = { from: 'client', to: '10.96.0.10:80/tcp' };

/** Fields that are not here are read alike in all versions: `test/matrix-versions.test.ts` asks the oldest and the newest one. */
export const versionRows: readonly VersionRow[] = [
  {
    field: 'Service metadata.labels',
    by: 'withoutHeadlessService',
    shown: {
      input: { service: { metadata: { labels: { 'service.kubernetes.io/headless': '' } } } },
      ask: toService,
    },
  },
  { field: 'Service spec.loadBalancerSourceRanges', by: 'compileIpvsService' },
  { field: 'Service status.loadBalancer.ingress.ipMode', by: 'withProxiedIngress' },
  {
    field: 'EndpointSlice metadata.labels',
    by: 'withoutProxyNameSlices',
    shown: {
      input: { slice: { metadata: { labels: { 'service.kubernetes.io/service-proxy-name': 'other' } } } },
      ask: toService,
    },
  },
  { field: 'EndpointSlice endpoints.hints.forZones', by: 'withoutUnaskedHints' },
  { field: 'EndpointSlice endpoints.hints.forNodes', by: 'withoutNodeHints' },
  { field: 'KubeProxyConfiguration featureGates.KubeProxyNFTablesLocalhostNodePorts', by: 'localhostOfTable' },
  { field: 'KubeProxyConfiguration iptables.localhostNodePorts', by: 'localhostOfTable' },
  {
    field: 'KubeProxyConfiguration conntrack.maxPerCore',
    by: 'conntrackValues',
    shown: {
      input: { proxy: { conntrack: { maxPerCore: 1_000_000 } } },
      ask: { sysctl: 'net.netfilter.nf_conntrack_max' },
    },
  },
];

interface Followed {
  readonly by: string;
  readonly since: KubeProxyVersion;
  readonly now: string;
  readonly before: string;
}

/** The differences that rules follow, by the function that makes each. */
export const followedDifferences: readonly Followed[] = [
  ...objectDifferences.map(({ older, ...rest }) => ({ ...rest, by: older.name })),
  ...ruleDifferences.map(({ followedBy, ...rest }) => ({ ...rest, by: followedBy })),
];

export function differenceBy(name: string): Followed {
  const found = followedDifferences.find(({ by }) => by === name);
  if (found === undefined) throw new Error(`no difference between versions is followed by ${name}`);
  return found;
}
