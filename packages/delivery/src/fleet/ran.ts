import type { Receipt } from '@sluice/bundle';

/** What receipts say about one version of a node's rules. */
export interface NodeRan {
  readonly node: string;
  /** The version of the node's rules in a bundle. */
  readonly version: string;
  /** The first receipt that has this version active; null: none has. */
  readonly since: Report | null;
  /** The first receipt after `since` that has another version active; null: none has. */
  readonly until: Report | null;
  /** The newest receipt of the time in question; null: there is none. */
  readonly atThatTime: Report | null;
}

/** A receipt, in short. */
export interface Report extends Pick<Receipt, 'number' | 'at' | 'outcome'> {
  /** The active version; null before the first one. */
  readonly version: string | null;
}

/**
 * Reads receipts of one node as its history.
 * @param receipts with valid signatures, in any order
 * @param at a time as receipts have it, `2026-12-01T12:00:00Z`
 */
export function ranOf(node: string, version: string, receipts: readonly Receipt[], at: string): NodeRan {
  const reports = receipts.toSorted((a, b) => a.number - b.number).map(reportOf);
  const first = reports.findIndex((report) => report.version === version);
  const until = first < 0 ? undefined : reports.slice(first).find((report) => report.version !== version);
  return {
    node,
    version,
    since: reports[first] ?? null,
    until: until ?? null,
    atThatTime: reports.findLast((report) => report.at <= at) ?? null,
  };
}

const reportOf = ({ number, at, outcome, standing }: Receipt): Report => ({
  number,
  at,
  outcome,
  version: standing?.version ?? null,
});
