import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { emptyTable, tableNames } from '@sluice/netfilter';
import { afterEach, beforeEach } from 'vitest';
import type { TransactionIntent } from '../ports/journal.ts';
import type { NodeState } from '../ports/node-state.ts';
import { DiskJournal } from './journal.ts';

let directory = '';

/** The state directory of the running test. */
export const here = (): string => directory;

/** Gives each test of a file a state directory of its own. */
export function inOwnDirectory(): void {
  beforeEach(() => {
    directory = mkdtempSync(`${tmpdir()}/sluiced-journal-`);
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));
}

export const open = (): DiskJournal => DiskJournal.open(directory, 'node-a', () => new Date(0));
export const state = (rule: string): NodeState => ({
  families: {
    ipv4: {
      filter: emptyTable,
      nat: { chains: new Map([['KUBE-SERVICES', [rule]]]), jumps: ['-A OUTPUT -j KUBE-SERVICES'] },
    },
  },
  sysctls: new Map([['net.ipv4.ip_forward', 1]]),
  conntrackHashSize: 65536,
});
/** A state with its chains as they are printed, whatever holds them. */
export const spelled = (one: NodeState | undefined): unknown => ({
  ...one,
  families: tableNames.map((table) => ({
    ...one?.families.ipv4?.[table],
    chains: [...(one?.families.ipv4?.[table].chains ?? [])],
  })),
});
export const nothing: NodeState = { families: {}, sysctls: new Map() };
export const [one, two] = [state('-A KUBE-SERVICES -j RETURN'), state('-A KUBE-SERVICES -j ACCEPT')];
export const opening = (version: string, to: NodeState): TransactionIntent => ({
  changeKind: 'release',
  flip: 'switch',
  version,
  state: to,
  sysctls: new Map([['net.ipv4.ip_forward', 0]]),
  flows: {
    old: [],
    fresh: [{ family: 'ipv4', protocol: 'udp', address: '10.96.0.10', port: 53, endpoint: undefined }],
  },
});

/** A whole transaction that ends well. */
export async function confirm(journal: DiskJournal, version: string, to: NodeState): Promise<void> {
  if (!journal.active) await journal.adopt(nothing);
  await journal.begin(opening(version, to));
  await journal.commit();
  await journal.finish();
}
