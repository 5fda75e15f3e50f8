import type { Problem } from '@sluice/netfilter';
import type { ObjectChange } from '../../cluster/watch/feed.ts';
import type { KubeObject } from '../../render/model/kube.ts';
import { type CommitLimits, commitLimits, CommitSchedule } from './commit-schedule.ts';
import type { PushResult, Recorder } from './commits.ts';
import { type Pace, Pacer } from './pace.ts';
import type { Publisher } from './publisher.ts';
import type { WatchReport } from './report.ts';
import { nextStep, type Situation, type Step } from './step.ts';

/** The parts of the loop. It calls them, and takes what they return; none calls it. */
interface LoopParts {
  /** All current objects; undefined until every resource is listed, a problem where nothing is to be rendered from them. */
  readonly objects: () => ReadonlyMap<string, KubeObject> | Problem | undefined;
  readonly publisher: Pick<Publisher, 'changed' | 'start' | 'stop' | 'forget' | 'publish' | 'isWhole'>;
  readonly pace: Pace;
  /** Undefined: publications stay in the directory. */
  readonly commits: Recorder | undefined;
  readonly report: Pick<WatchReport, 'published' | 'notPublished' | 'held' | 'committed' | 'notCommitted' | 'say'>;
  /** Monotonic, in milliseconds. */
  readonly now: () => number;
  readonly commitLimits?: CommitLimits;
}

/** A push beside the loop. */
interface Push {
  readonly attempt: number;
  /** The term that started it. */
  readonly term: number;
  /** A string: why it failed without a result. */
  result: PushResult | string | undefined;
}

/** `incomplete`: the directory may not be committed, and the next publication triggers a commit. */
type Recorded = 'recorded' | 'incomplete';

/** Keeps a directory up to date with the cluster, and its repository with the directory: changes settle, then it renders, writes, commits, pushes. */
export class WatchLoop {
  readonly #parts: LoopParts;
  readonly #pacer: Pacer;
  readonly #schedule: CommitSchedule;
  readonly #bell = new Bell();
  #role: Situation['role'] = 'standby';
  #hadOtherWriter = false;
  /** Counts gains and losses of the right to write: a result of an earlier term does not count. */
  #term = 0;
  #ending: Situation['ending'] = 'no';
  #push: Push | undefined;
  #hasPublished = false;

  constructor(parts: LoopParts) {
    this.#parts = parts;
    this.#pacer = new Pacer(parts.pace);
    this.#schedule = new CommitSchedule(parts.commitLimits ?? commitLimits);
  }

  /** True after the first successful publication. */
  get hasPublished(): boolean {
    return this.#hasPublished;
  }

  /** Runs until `finish`. */
  async run(): Promise<void> {
    for (let step = this.#decide(); step.do !== 'end'; step = this.#decide()) {
      if (step.do === 'wait') await this.#bell.wait(step.ms);
      else if (step.do === 'take over') await this.#takeOver();
      else if (step.do === 'render') this.#render();
      else if (step.do === 'commit') await this.#commit();
      else await this.#concludePush();
    }
    this.#stopWriting();
  }

  /** Records a change of an object, unless another process writes the directory. */
  changed(change: ObjectChange): void {
    if (this.#parts.publisher.changed(change)) this.#due(change.isEndpoints, change.about);
  }

  /** Schedules a publication without a change of an object. */
  recheck(): void {
    this.#due(false);
  }

  #due(isEndpoints: boolean, about?: string): void {
    this.#pacer.changed(this.#parts.now(), isEndpoints, about);
    this.#bell.ring();
  }

  /** Starts to write. @param hadOtherWriter whether another process may have written before: then it continues from the remote branch */
  lead(hadOtherWriter: boolean): void {
    this.#term += 1;
    this.#role = 'taking over';
    this.#hadOtherWriter = hadOtherWriter;
    this.#bell.ring();
  }

  /** Stops to write: another process takes over. */
  follow(): void {
    this.#term += 1;
    this.#stopWriting();
    this.#bell.ring();
  }

  /** Commits what is written, and ends. After a failure it leaves changes to the next process. */
  finish(): void {
    const isCommitDue = this.#schedule.dueMs !== undefined && !this.#schedule.hasFailed;
    this.#ending = isCommitDue ? 'after commit' : 'now';
    this.#parts.publisher.stop();
    this.#bell.ring();
  }

  #stopWriting(): void {
    const { publisher, commits, report } = this.#parts;
    this.#role = 'standby';
    publisher.stop();
    this.#schedule.reset();
    commits?.forget();
    report.committed();
  }

  #decide(): Step {
    const push = this.#push;
    return nextStep({
      nowMs: this.#parts.now(),
      role: this.#role,
      ending: this.#ending,
      renderMs: this.#pacer.dueMs,
      commitMs: this.#schedule.dueMs,
      push: push === undefined ? 'none' : push.result === undefined ? 'running' : 'ended',
    });
  }

  async #takeOver(): Promise<void> {
    const { publisher, commits, report } = this.#parts;
    const term = this.#term;
    for (const done of (await commits?.repair()) ?? []) report.say(done);
    const why = this.#hadOtherWriter ? await commits?.followRemote() : undefined;
    if (why !== undefined) report.notCommitted(why);
    // The Lease may have been lost, and gained again, meanwhile.
    if (term !== this.#term) return;
    this.#role = 'writing';
    publisher.start();
    this.recheck();
  }

  #render(): void {
    const { objects, publisher, commits, report, now } = this.#parts;
    const current = objects();
    if (current === undefined) {
      this.#pacer.published(now());
      return;
    }
    const published = 'code' in current ? { problems: [current] } : publisher.publish(current);
    if ('problems' in published) {
      this.#pacer.failed(now());
      if ('held' in published && published.held) report.held(published.held);
      else report.notPublished(published.problems);
      return;
    }
    // What is held goes in later, also without another change.
    if (published.held) this.#pacer.failed(now());
    else this.#pacer.published(now());
    this.#hasPublished = true;
    report.published(published);
    const hasChanges = published.written.length + published.removed.length > 0;
    if (commits !== undefined && this.#schedule.published(hasChanges, now())) commits.add(published);
  }

  async #commit(): Promise<void> {
    const { commits, report } = this.#parts;
    if (commits === undefined) return;
    if (this.#ending === 'after commit') this.#ending = 'now';
    const term = this.#term;
    const isRetry = this.#schedule.hasFailed;
    this.#schedule.began();
    const recorded = await valueOf(async () => {
      const repaired = isRetry ? await commits.repair() : [];
      for (const done of repaired) report.say(done);
      if (repaired.length > 0) this.#forget();
      return await this.#record(commits, term);
    });
    if (term !== this.#term) return;
    if (recorded instanceof Error) this.#failed(recorded.message);
    else if (recorded === 'recorded' && commits.isPushing) this.#startPush(commits, 1);
    else if (recorded === 'recorded') this.#succeeded();
  }

  /** Commits the directory if it has exactly the last publication. */
  async #record(commits: Recorder, term: number): Promise<Recorded> {
    if (term !== this.#term || !this.#parts.publisher.isWhole) return 'incomplete';
    const message = await commits.commit();
    if (message !== undefined) this.#parts.report.say(`committed: ${message}`);
    return 'recorded';
  }

  /** Pushes beside the loop. */
  #startPush(commits: Recorder, attempt: number): void {
    const push: Push = { attempt, term: this.#term, result: undefined };
    this.#push = push;
    const pauseMs = this.#schedule.limits.pushPauseMs * (attempt - 1) * Math.random();
    void valueOf(() => commits.push(pauseMs)).then((result) => {
      push.result = result instanceof Error ? result.message : result;
      this.#bell.ring();
    });
  }

  /** After a rejected push, rebases onto the remote branch and tries again. */
  async #concludePush(): Promise<void> {
    const { commits } = this.#parts;
    const push = this.#push;
    this.#push = undefined;
    if (commits === undefined || push?.result === undefined || push.term !== this.#term) return;
    const { attempt, result } = push;
    if (typeof result === 'string') return this.#failed(result);
    if (result.kind === 'pushed') return this.#succeeded();
    const recorded = result.isFetched ? await valueOf(() => this.#rebase(commits, push.term)) : 'recorded';
    if (push.term !== this.#term) return;
    if (recorded instanceof Error) this.#failed(recorded.message);
    else if (recorded === 'recorded' && attempt === this.#schedule.limits.pushesMax) this.#failed(result.why);
    else if (recorded === 'recorded') this.#startPush(commits, attempt + 1);
  }

  /** Rebases. This may change the directory: renders and commits the state of the cluster again before the next push. */
  async #rebase(commits: Recorder, term: number): Promise<Recorded> {
    if (!this.#parts.publisher.isWhole) return 'incomplete';
    try {
      await commits.rebase();
    } finally {
      this.#forget();
    }
    if (this.#role === 'writing' && this.#ending === 'no') this.#render();
    const recorded = await this.#record(commits, term);
    // The commit has this publication, so no other one is due for it.
    if (recorded === 'recorded') this.#schedule.began();
    return recorded;
  }

  /** Files were changed by Git. */
  #forget(): void {
    this.#parts.publisher.forget();
    this.recheck();
  }

  #succeeded(): void {
    this.#schedule.succeeded();
    this.#parts.report.committed();
  }

  #failed(why: string): void {
    this.#schedule.failed(this.#parts.now());
    this.#parts.report.notCommitted(why);
  }
}

/** A failure is a value. */
async function valueOf<T>(act: () => Promise<T>): Promise<T | Error> {
  try {
    return await act();
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

/** Wakes a loop that waits. A ring without a wait ends the next wait at once. */
class Bell {
  #isRung = false;
  #wake: (() => void) | undefined;

  ring(): void {
    this.#isRung = true;
    this.#wake?.();
  }

  /** Waits for a ring. @param ms the maximum */
  async wait(ms: number | undefined): Promise<void> {
    if (!this.#isRung) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        if (ms !== undefined) timer = setTimeout(resolve, ms);
      });
      clearTimeout(timer);
      this.#wake = undefined;
    }
    this.#isRung = false;
  }
}
