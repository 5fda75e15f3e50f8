import type { Tree } from '../inbox/files.ts';
import type { Inbox } from '../inbox/inbox.ts';
import type { Journal } from '../ports/journal.ts';
import type { Reconciler } from '../apply/reconcile/reconciler.ts';
import type { Repair } from '../observe/status/repairs.ts';
import type { Status } from '../observe/status/status.ts';
import type { Drift } from './drift.ts';
import type { DaemonLog, Ended } from './reports.ts';

export interface DaemonDependencies {
  readonly reconciler: Pick<Reconciler, 'recover' | 'repair' | 'put' | 'rehearse'> &
    Partial<Pick<Reconciler, 'removed' | 'reconcileFlows' | 'offerEndpoints'>>;
  readonly journal: Pick<Journal, 'active' | 'halted'>;
  readonly inbox: Pick<Inbox, 'look'> & Partial<Pick<Inbox, 'wasWhole' | 'lookInSteps'>>;
  readonly status: Status;
  readonly log: DaemonLog;
  /** The facts of the machine that rules depend on, such as its addresses; when they change, the bundle is applied again. */
  readonly machine: () => string;
  readonly monotonicMs: () => number;
  /** Processor time that this process and its children have used; default: all of the time. */
  readonly processorMs?: () => number;
  readonly scanIntervalMs: number;
  /** How long a limit may delay a release before the node is unhealthy; left out: `limits.releaseWaitMs`. */
  readonly releaseWaitMsMax?: number;
  /** How long the kernel may lack what the directory has before the node is unhealthy; left out: for ever, as a review or a wave takes its time. */
  readonly lateMsMax?: number;
  /** The same of a directory of live endpoints that cannot be read. */
  readonly liveLateMsMax?: number;
  /** Tells when other programs may have changed the kernel; without it only a scan finds drift. */
  readonly drift?: Drift;
  /** Called once, when the kernel holds the confirmed rules or cannot be made to. */
  readonly ready: () => void;
  /** Called with the files of each bundle whose release counts on this node, applied or not. */
  readonly seen?: (files: Tree['files']) => void;
  /** Called with the files of a bundle that is now in the kernel. */
  readonly taken?: (files: Tree['files']) => Promise<void>;
  /** Called with the files of a bundle whose endpoints reached the active generation before, or without, the rest of it. */
  readonly earlyEndpoints?: (files: Tree['files']) => void;
  /** These frontends lose their last endpoint soon: a program that announces them should stop before. */
  readonly leaves?: (frontends: readonly string[]) => void;
  /** For receipts. */
  readonly ended?: Ended;
  /** Called when the release in the directory waits for its wave only: an earlier refusal is over. */
  readonly waits?: () => Promise<void>;
  /** Called once per round, for work that is retried until it succeeds. */
  readonly round?: () => Promise<void>;
  /** Called after a drift repair. */
  readonly repaired?: (repair: Repair) => void;
  /** Called when the loop is idle. */
  readonly idle?: () => void;
}
