import { type Receipt, receiptFile, type ReceiptOutcome } from '@sluice/bundle';
import type { Evidence, RolloutTarget } from './fleet.ts';

export const digest = 'd'.repeat(64);

/** For tests only: the receipt of a node about release 42, an update of it, another one, or none. */
export function receiptOf(
  node: string,
  outcome: ReceiptOutcome,
  about: 'this' | 'update' | 'elsewhere' | 'older' | 'nothing' = 'this',
  because: string | null = null,
): readonly [string, Evidence] {
  const release = { cluster: 'shop', serial: 42, digest, version: '8'.repeat(16) };
  const others = {
    this: release,
    update: { ...release, digest: 'c'.repeat(64) },
    elsewhere: { ...release, cluster: 'other', digest: 'c'.repeat(64) },
    older: { ...release, serial: 41, digest: 'e'.repeat(64) },
  };
  const receipt: Receipt = {
    node,
    number: 7,
    at: '2026-12-01T12:00:00Z',
    outcome,
    release: { ...others, nothing: null }[about],
    standing: { generation: 3, version: '8'.repeat(16) },
    codes: [],
    because,
    probes: [],
    sluiced: '0.1.0',
  };
  return [node, { receipt, file: receiptFile(receipt), passedOver: [] }];
}

/** For tests only: a confirmation of release 42 with these probe results. */
export function receiptWith(probes: Receipt['probes']): readonly [string, Evidence] {
  const [node, evidence] = receiptOf('a', 'confirmed');
  return [node, { ...evidence, receipt: evidence.receipt && { ...evidence.receipt, probes } }];
}

/** For tests only: a node without a valid receipt. */
export const silent = (node: string, ...passedOver: readonly string[]): readonly [string, Evidence] => [
  node,
  { receipt: undefined, file: undefined, passedOver },
];

export const waves = [
  { name: 'canary', nodes: ['a'] },
  { name: 'rack', nodes: ['b', 'c'] },
  { name: 'others', nodes: ['d', 'e'] },
] as const;

/** For tests only: release 42 of five nodes in three waves. */
export const target = (open: number): RolloutTarget => ({
  cluster: 'shop',
  serial: 42,
  digest,
  nodes: ['a', 'b', 'c', 'd', 'e'],
  waves,
  open,
});
