import type { Problem } from '@sluice/netfilter';
import type { Tree } from '../inbox/files.ts';
import { describe, type Outcome, rateOutcome } from '../ports/outcome.ts';
import type { Generation } from '../ports/journal.ts';
import type { Status } from '../observe/status/status.ts';

export interface DaemonLog {
  info(details: object, message: string): void;
  warn(details: object, message: string): void;
  error(details: object, message: string): void;
  fatal(details: object, message: string): void;
}

/** The result of a change, or the refusal of a directory. */
type DaemonOutcome = Outcome | { readonly kind: 'refused'; readonly problems: readonly Problem[] };

/** Receives the result of a change or the refusal of a directory. `onlyEndpoints`: only the endpoints of the tree count. */
export type Ended = (ending: DaemonOutcome, tree?: Tree, onlyEndpoints?: boolean) => Promise<void>;

/** Tells people and receipts what became of bundles: a lasting state once, when it begins. */
export class Reports {
  readonly #status: Status;
  readonly #log: DaemonLog;
  readonly #ended: Ended;
  #lastLogged = '';
  /** Whether the last reported result is the refusal of a directory. */
  #hasReportedRefusal = false;
  /** The digest of the tree that alarms of bundles are about; empty: of none; undefined before the first look. */
  #about: string | undefined;

  constructor(status: Status, log: DaemonLog, ended: Ended = async () => undefined) {
    this.#status = status;
    this.#log = log;
    this.#ended = ended;
  }

  /** The bundle in the directory: alarms about one that is not there any more are over. @param digest of its tree; undefined: there is none */
  about(digest = ''): void {
    // What was found out at the start is about the bundle that is there.
    if (this.#about !== undefined && digest !== this.#about) this.#status.clearBundle();
    this.#about = digest;
  }

  /** The outcome of a change. @param isPartly only endpoints of the bundle are in the kernel */
  outcome(outcome: Outcome, isPartly = false): void {
    this.#raise(outcome);
    const problems = outcome.kind === 'refused' ? { problems: outcome.refusal.problems } : {};
    const message =
      outcome.kind === 'refused' && isPartly
        ? `refused: ${outcome.refusal.problems.length} problem(s), only endpoints were applied`
        : describe(outcome);
    this.once(rateOutcome(outcome).level, { outcome: outcome.kind, ...problems }, message);
  }

  #raise(outcome: Outcome): void {
    switch (outcome.kind) {
      case 'refused':
        return this.#status.refused(outcome.refusal.problems);
      case 'rolled-back':
        return this.#status.raise('ROLLED_BACK', `${outcome.because}${outcome.again ? '; it is tried again' : ''}`);
      case 'pending':
        return this.#status.raise('KERNEL', describe(outcome));
      case 'held':
        return this.#status.raise('NODE_HELD', `${outcome.because}; ${outcome.rollback}`);
      case 'same':
      case 'confirmed':
        return this.#status.clearBundle();
    }
  }

  /** A directory that is no bundle. A half-copied one says nothing about a release. */
  async refused(problems: readonly Problem[]): Promise<void> {
    this.#about = '';
    this.#status.refused(problems);
    this.once('warn', { problems }, 'no complete bundle in the bundle directory');
    if (problems.every(({ code }) => code === 'BUNDLE_INCOMPLETE')) return;
    await this.ended({ kind: 'refused', problems });
    this.#hasReportedRefusal = true;
  }

  /** The bundle of the last change is in the directory. If the directory was refused in between, that is over. */
  async unchanged(active: Generation | undefined, tree: Tree, onlyEndpoints: boolean): Promise<void> {
    this.#status.clearBundle();
    if (this.#hasReportedRefusal && active) await this.ended({ kind: 'same', generation: active }, tree, onlyEndpoints);
  }

  async ended(...result: Parameters<Ended>): Promise<void> {
    this.#hasReportedRefusal = false;
    await this.#ended(...result);
  }

  /** Logs a lasting state when it begins, not at every scan. */
  once(level: keyof DaemonLog, details: object, message: string): void {
    const text = JSON.stringify([message, details]);
    if (text !== this.#lastLogged) this.#log[level](details, message);
    this.#lastLogged = text;
  }
}
