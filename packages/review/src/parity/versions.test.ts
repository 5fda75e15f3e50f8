import type { HeaderNote, Observation } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { causeOf } from './causes.ts';
import type { DifferingCase } from './differing-case.ts';
import { observedProxy } from './versions.ts';

const endpoint = (node: string): HeaderNote => ({
  port: '',
  text: '10.244.2.7:8080',
  node,
  ready: true,
  serving: true,
  terminating: false,
  weight: 1,
  hintZones: [],
  hintNodes: [],
});

interface Form {
  readonly mode: 'ipvs' | 'nftables';
  readonly source: 'node' | 'outside';
  readonly role: 'cluster' | 'external' | 'load-balancer' | 'node-port';
  readonly to?: 'localhost' | 'address';
  readonly ranges?: readonly string[];
  readonly policy?: 'Cluster' | 'Local';
  readonly endpoints?: readonly HeaderNote[];
  readonly protocol?: 'tcp' | 'udp';
  readonly observed: string;
  readonly desired: string;
}

const outcome = (verdict: string): object => ({ key: verdict, branches: [{ verdict, share: 1, masquerade: false }] });

/** A case of the Service port 198.51.100.1:80/tcp on node-1, as far as causes ask. */
const caseOf = (form: Form, version: string | undefined, set = '198.51.100.1,tcp:80'): DifferingCase =>
  ({
    row: {
      family: 'ipv4',
      source: { class: form.source, address: '192.0.2.11' },
      destination: { kind: form.to ?? 'address', protocol: form.protocol ?? 'tcp' },
    },
    frontend: {
      role: form.role,
      port: { name: '' },
      destination: { kind: 'address', address: '198.51.100.1', port: 80, protocol: 'tcp' },
      declared: {
        notes: {
          sourceRanges: form.ranges ?? [],
          externalPolicy: form.policy ?? 'Cluster',
          endpoints: form.endpoints ?? [],
        },
      },
    },
    node: { name: 'node-1' },
    modes: { observed: [form.mode], desired: form.mode },
    observed: outcome(form.observed),
    desired: outcome(form.desired),
    isOtherAddress: false,
    foreign: undefined,
    proxy: observedProxy(
      {
        tools: version === undefined ? {} : { 'kube-proxy': version },
        sets: [`add KUBE-LOAD-BALANCER-FW ${set}`],
      } as unknown as Observation,
      'ipv4',
    ),
  }) as unknown as DifferingCase;

const zeroRange: Form = {
  mode: 'ipvs',
  source: 'outside',
  role: 'load-balancer',
  observed: 'drop',
  desired: 'dnat',
};
const localDrop: Form = {
  mode: 'nftables',
  source: 'node',
  role: 'external',
  policy: 'Local',
  endpoints: [endpoint('node-2')],
  observed: 'drop',
  desired: 'dnat',
};
const earlyReject: Form = {
  mode: 'nftables',
  source: 'node',
  role: 'load-balancer',
  ranges: ['203.0.113.0/24'],
  observed: 'reject',
  desired: 'drop',
};

const localhostReject: Form = {
  mode: 'nftables',
  source: 'node',
  role: 'node-port',
  to: 'localhost',
  observed: 'reject',
  desired: 'pass',
};

const localhostListener: Form = { ...localhostReject, observed: 'pass', desired: 'dnat' };
const localhostUdp: Form = { ...localhostListener, protocol: 'udp', observed: 'reject' };

test.each([
  ['a node port on localhost, mode nftables', 'v1.38.0', localhostReject, 'VERSION_LOCALHOST_REJECTS'],
  ['a listener on localhost, mode nftables', 'v1.38.0', localhostListener, 'VERSION_LOCALHOST_LISTENER'],
  [
    'the same of a Service without endpoints',
    'v1.38.0',
    { ...localhostListener, desired: 'reject' },
    'VERSION_LOCALHOST_LISTENER',
  ],
  ['UDP beside that listener', 'v1.38.0', localhostUdp, 'VERSION_LOCALHOST_LISTENER'],
  ['the same before the release', 'v1.38.0-beta.0', localhostReject, 'VERSION_LOCALHOST_REJECTS'],
  ['a range of all addresses, mode ipvs', 'v1.33.2', zeroRange, 'VERSION_ZERO_RANGE'],
  ['the same, as kube-proxy --version prints it', 'Kubernetes v1.28.15', zeroRange, 'VERSION_ZERO_RANGE'],
  ['policy Local without an endpoint here, mode nftables', 'v1.31.9', localDrop, 'VERSION_EARLY_CHECKS'],
  ['no endpoint, and ranges without the node, mode nftables', 'v1.32.13', earlyReject, 'VERSION_EARLY_CHECKS'],
])('%s is a difference of version %s', (_title, version, form, code) => {
  const { advice, ...cause } = causeOf(caseOf(form, version), () => undefined);
  expect(cause).toMatchObject({ cause: 'version', code });
  expect(advice).toMatch(/^kube-proxy 1\.\d+ in mode /);
});

test.each<[string, string | undefined, Form]>([
  ['whose version is not known', undefined, zeroRange],
  ['of a later version', 'v1.34.0', zeroRange],
  ['of a later version in mode nftables', 'v1.33.13', localDrop],
  ['where the bundle has source ranges', 'v1.31.0', { ...zeroRange, ranges: ['203.0.113.0/24'] }],
  ['that is served, and should be dropped', 'v1.31.0', { ...zeroRange, observed: 'dnat', desired: 'drop' }],
  ['of clients outside in mode nftables', 'v1.31.0', { ...localDrop, source: 'outside' }],
  ['of an earlier version at localhost', 'v1.37.2', localhostReject],
  ['at another address of the node', 'v1.38.0', { ...localhostReject, to: 'address' }],
  ['at localhost that is served', 'v1.38.0', { ...localhostReject, desired: 'dnat' }],
  ['without the gate of a listener', 'v1.37.2', localhostListener],
  ['of UDP that no rule refuses', 'v1.38.0', { ...localhostUdp, observed: 'pass' }],
  ['with an endpoint here', 'v1.31.0', { ...localDrop, endpoints: [endpoint('node-1')] }],
  ['without any endpoint', 'v1.31.0', { ...localDrop, endpoints: [] }],
  ['with policy Cluster', 'v1.31.0', { ...localDrop, policy: 'Cluster' }],
  ['without source ranges', 'v1.31.0', { ...earlyReject, ranges: [] }],
])('a difference %s has another cause', (_title, version, form) => {
  expect(causeOf(caseOf(form, version), () => undefined).cause).not.toBe('version');
});

test('a frontend that kube-proxy did not restrict has another cause', () => {
  expect(causeOf(caseOf(zeroRange, 'v1.31.0', '198.51.100.2,tcp:80'), () => undefined).cause).toBe('objects');
});
