import { expect, test } from 'vitest';
import { config, endpoint, node, profile, service, slice } from '../builders.fixture.ts';
import type { Profile } from './config.ts';
import { render, type Rendered } from '../render.ts';

const address = '198.51.100.7';
const external = { externalIPs: [address], externalTrafficPolicy: 'Local' };
const here = { endpoints: [endpoint('10.244.1.5', { nodeName: 'node-a', conditions: { ready: true } })] };
const [on, off] = [{ AllowServiceExternalIPs: true }, { AllowServiceExternalIPs: false }];
const ipvs = { scheduler: 'rr', excludeCIDRs: [], strictARP: false, timeouts: { tcp: 0, tcpFin: 0, udp: 0 } } as const;

const rendered = (profiles: readonly Profile[], other = '10.96.0.2'): Rendered =>
  render({
    base: [],
    change: [
      node('node-a', {}, { pool: 'a' }),
      node('node-b', {}, { pool: 'b' }),
      service('web', external),
      slice('web', here),
      service('db', { clusterIP: '10.96.0.2', externalIPs: other === '10.96.0.2' ? [] : [other] }),
      slice('db'),
    ],
    config: config({ profiles, complete: true }),
    allocations: [],
    allocate: false,
    snapshot: false,
    strict: false,
  });

/** The profiles whose files name the external IP. */
const serving = ({ files }: Rendered): readonly string[] => {
  const paths = [...files].filter(([, text]) => text.includes(address)).map(([path]) => path.split('/')[1] ?? '');
  return [...new Set(paths)];
};

const codes = ({ problems }: Rendered): readonly string[] => problems.map(({ code }) => code);

test('only files of profiles that serve external IPs have them', () => {
  const select = { matchLabels: { pool: 'a' } };
  expect(serving(rendered([profile('a', { nodeSelector: select }), profile('b')]))).toEqual(['a', 'b']);
  expect(serving(rendered([profile('a', { nodeSelector: select, featureGates: off }), profile('b')]))).toEqual(['b']);
  expect(serving(rendered([profile('a', { featureGates: off })]))).toEqual([]);
});

test.each([
  ['iptables', {}],
  ['ipvs', { mode: 'ipvs', ipvs }],
  ['nftables', { mode: 'nftables', nftables: { masqueradeAll: false } }],
] as const)('a Service without its external IPs has no external frontend: mode %s', (_mode, mode) => {
  const filesOf = (spec: Parameters<typeof service>[1]): string => {
    const change = [node('node-a'), service('web', spec), slice('web', here)];
    const profiles = [profile('default', { featureGates: off, ...mode })];
    const input = { base: [], change, allocations: [], allocate: false, snapshot: false, strict: false };
    const { files } = render({ ...input, config: config({ profiles }) });
    expect(files.size).toBeGreaterThan(0);
    return JSON.stringify([...files]);
  };
  expect(filesOf({ externalIPs: [address] })).toBe(filesOf({}));
});

test('two Services with one external IP are a conflict only if a node serves it', () => {
  expect(codes(rendered([profile('a')], address))).toContain('VIP_CONFLICT');
  expect(codes(rendered([profile('a', { featureGates: off })], address))).not.toContain('VIP_CONFLICT');
  const unused = profile('b', { nodeSelector: { matchLabels: { pool: 'none' } }, featureGates: on });
  expect(codes(rendered([unused, profile('a', { featureGates: off })], address))).not.toContain('VIP_CONFLICT');
});

test('says once that external IPs end, where a node serves them', () => {
  const notes = (profiles: readonly Profile[], other?: string): readonly string[] =>
    rendered(profiles, other).problems.flatMap(({ code, message }) => (code === 'EXTERNAL_IPS_END' ? [message] : []));
  const end = 'can be reached at external IPs, which are off by default in Kubernetes 1.40 (expected in August 2027)';
  const two = [
    profile('a', { nodeSelector: { matchLabels: { pool: 'a' } } }),
    profile('b', { kubeProxyVersion: '1.28' }),
  ];
  expect(notes(two)).toEqual([`shop/web ${end}`]);
  expect(notes(two, '198.51.100.8')).toHaveLength(1);
  expect(notes(two, '198.51.100.8')[0]).toContain(`and 1 other Service ${end}`);
  expect(notes([profile('a', { featureGates: off })])).toEqual([]);
});
