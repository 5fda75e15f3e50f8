import type { FindingLevel } from '../../policy/catalogue.ts';
import type { ChangeReport } from '../../report/report.ts';
import type { ChangeStatus, ReportEndpoint, ReportFrontend } from '../../report/services.ts';
import type { Severity } from '../../report/severity.ts';
import type { FlowEffect } from '../../report/turn.ts';

/** What the script of a report's page draws: texts, and indexes into the list of nodes. */
export interface PageData {
  readonly nodes: readonly PageNode[];
  /** Those with an effect or a changed declaration, worst first, then by name, as many as there is room for. */
  readonly services: readonly PageService[];
  /** The next of them, without endpoints and frontends, a line each: `brief-services.ts` reads them. */
  readonly brief: readonly string[];
  /** All others by name, a line each: `service-line.ts` reads them. */
  readonly others: readonly string[];
  /** Worst first. */
  readonly flows: readonly PageFlow[];
  /** The number of flows that are left out to limit the size of the page. */
  readonly flowsCut: number;
  readonly raw: PageRaw;
}

export interface PageNode {
  readonly name: string;
  readonly zone: string;
  readonly fate: ChangeReport['nodes'][number]['fate'];
}

export interface PageService {
  readonly name: string;
  readonly fate: ChangeStatus;
  readonly severity?: Severity;
  readonly frontends: readonly ReportFrontend[];
  readonly endpoints: readonly PageEndpoint[];
  /** How many endpoints, or whether all of it, the page has no room for; absent: none. */
  readonly cut?: number | 'all';
  /** What the change does to it, worst first. */
  readonly effects: readonly { readonly severity: Severity; readonly text: string }[];
  /** The changes of its declarations, one sentence each. */
  readonly facts: readonly string[];
}

export interface PageEndpoint extends Pick<ReportEndpoint, 'text' | 'port' | 'fate' | 'before' | 'after'> {
  /** Index into the list of nodes; absent when the node is not known. */
  readonly at?: number;
}

export interface PageFlow {
  readonly services: string;
  readonly to: string;
  readonly from: string;
  readonly on: string;
  /** What differs, in one line. */
  readonly what: string;
  readonly packet: string;
  readonly turn: FlowEffect;
  /** The classes of sources, for the filter. */
  readonly sources: readonly string[];
  /** Where connections end, before or after. */
  readonly branches: readonly PageBranch[];
  /** Affinity, scheduler and the whole outcomes, before and after. */
  readonly old: string;
  readonly new: string;
}

/** One end of connections, with its shares; absent: not an end there. */
export interface PageBranch {
  /** `10.244.1.5:8080`, or a verdict such as `REJECT`. */
  readonly to: string;
  readonly before?: number;
  readonly after?: number;
  /** Whether connections are masqueraded, before and after. */
  readonly masked: readonly [boolean, boolean];
}

/** Findings with one sentence. */
export interface FindingGroup {
  readonly level: FindingLevel | 'waived';
  readonly code: string;
  /** The rule's sentence. */
  readonly title: string;
  readonly reason: string;
  /** What all of its findings say, and advise; absent where they say different things. */
  readonly shared?: string;
  readonly findings: readonly { readonly subject: string; readonly text: string; readonly where: string }[];
  /** The number of findings that are left out to limit the size of the page. */
  readonly cut: number;
}

export interface PageRaw {
  /** A patch for each file. */
  readonly files: readonly { readonly path: string; readonly patch: string }[];
  /** The number of files that are left out to limit the size of the page. */
  readonly cut: number;
}
