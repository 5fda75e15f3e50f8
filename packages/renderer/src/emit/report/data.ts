import type { FindingLevel } from '../../review/policy/catalogue.ts';
import type { ChangeReport, Fate, FlowEffect } from '../../review/report/report.ts';

/** What the page of a report shows: texts, and indexes into the list of nodes. */
export interface PageData {
  readonly verdict: string;
  readonly old: string;
  readonly new: string;
  /** Counts for the summary. */
  readonly tiles: readonly { readonly label: string; readonly value: string }[];
  readonly nodes: readonly PageNode[];
  /** Changed ones first, then by name. */
  readonly services: readonly PageService[];
  readonly flows: readonly PageFlow[];
  readonly settings: readonly string[];
  /** Absent without a policy. */
  readonly findings?: readonly PageFinding[];
  readonly raw: PageRaw;
}

export interface PageNode {
  readonly name: string;
  readonly zone: string;
  readonly fate: ChangeReport['nodes'][number]['fate'];
}

export interface PageService {
  readonly name: string;
  readonly fate: Fate;
  readonly addresses: readonly string[];
  readonly endpoints: readonly PageEndpoint[];
  /** The changes, one sentence each. */
  readonly facts: readonly string[];
}

export interface PageEndpoint {
  readonly text: string;
  /** Index into the list of nodes; absent when the node is not known. */
  readonly at?: number;
  readonly fate: ChangeReport['nodes'][number]['fate'];
}

export interface PageFlow {
  readonly services: string;
  readonly to: string;
  readonly from: string;
  readonly on: string;
  readonly old: string;
  readonly new: string;
  readonly packet: string;
  readonly turn: FlowEffect;
  /** The classes of sources, for the filter. */
  readonly sources: readonly string[];
}

export interface PageFinding {
  readonly level: FindingLevel | 'waived';
  readonly code: string;
  readonly subject: string;
  readonly text: string;
  readonly where: string;
}

export interface PageRaw {
  /** A patch for each file. */
  readonly files: readonly { readonly path: string; readonly patch: string }[];
  /** The number of files that are left out to limit the size of the page. */
  readonly cut: number;
}
