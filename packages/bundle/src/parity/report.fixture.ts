import { type ParityDifference, type ParityReport, resultOf } from './report.ts';

/** A frontend that a bundle treats otherwise than the node. @param change what a test is about */
export const differenceWith = (change: Partial<ParityDifference> = {}): ParityDifference => ({
  id: '1111111111111111',
  frontend: '10.96.0.10:80/tcp',
  family: 'ipv4',
  services: ['shop/web'],
  source: { class: 'outside', address: '198.51.100.7' },
  observed: 'dnat 10.244.1.5:8080',
  desired: 'masquerade dnat 10.244.1.5:8080',
  cause: 'config',
  packet: { from: '198.51.100.7', to: '10.96.0.10', port: 80, protocol: 'tcp' },
  alsoFrom: [],
  advice: 'Compare clusterCIDR',
  ...change,
});

/** A report about node-a, with the result that its differences and gaps have. @param change what a test is about */
export function reportWith(change: Partial<ParityReport> = {}): ParityReport {
  const { differences = [], coverage = { frontends: 1, sources: 1, cases: 1, notCovered: [] } } = change;
  return {
    node: 'node-a',
    bootId: '0f3b1e0e-7d6b-4a35-9c22-6d1f54a6c1b2',
    observedDigest: 'a'.repeat(64),
    version: '8'.repeat(16),
    modes: { observed: ['iptables'], desired: 'nftables' },
    result: resultOf({ differences, coverage }),
    coverage,
    differences,
    ...change,
  };
}

/** A rule that was not read, so that a report with it is incomplete. */
export const gap = { what: '-A FORWARD -m u32 -j DROP', why: 'option --u32 is not read', cases: 1, matters: true };
