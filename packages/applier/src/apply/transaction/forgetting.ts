import { limits, pauseBeforeRetry, retries } from '../../limits.ts';
import { messageOf } from '../../message.ts';
import type { TrackedFlow, Kernel } from '../../ports/kernel.ts';
import type { Ports } from '../../ports/ports.ts';

/**
 * Deletes the conntrack entries of stale flows, whose connections would otherwise ignore the new rules. In a large table that takes long,
 * and rules are more urgent, so a change waits only `limits.forgettingMsMax` for it; the rest continues in the background, and is retried
 * if it fails.
 *
 * Reports: `flows-forgotten` with the number of entries; `flows-stale` if some remain for longer, with their number where they were listed; `flows-healed` when none do any more.
 */
export class Forgetting {
  readonly #kernel: Pick<Kernel, 'forgetFlows'>;
  readonly #report: Ports['report'];
  #left: readonly TrackedFlow[] = [];
  /** Resolves when all entries are deleted, or an attempt has failed. */
  #round: Promise<void> | undefined;
  #failures = 0;
  /** Of the attempt that goes on, or of the last one; undefined: nothing listed them. */
  #connections: number | undefined;
  #isStale = false;

  constructor({ kernel, report }: { readonly kernel: Pick<Kernel, 'forgetFlows'>; readonly report: Ports['report'] }) {
    this.#kernel = kernel;
    this.#report = report;
  }

  /** Never fails. Resolves when the entries are deleted, when that failed, or after `limits.forgettingMsMax`. */
  async forget(flows: readonly TrackedFlow[]): Promise<void> {
    this.#left = [...this.#left, ...flows].slice(-limits.flowsLeftMax);
    this.#round ??= this.#start();
    const { promise: late, resolve } = Promise.withResolvers<true>();
    const timer = setTimeout(() => resolve(true), limits.forgettingMsMax);
    const isLate = await Promise.race([this.#round, late]);
    clearTimeout(timer);
    if (isLate) this.#stale(`it takes longer than ${limits.forgettingMsMax / 1000} s and continues in the background`);
  }

  async #start(): Promise<void> {
    try {
      while (this.#left.length > 0) await this.#all();
      if (this.#isStale) this.#report('flows-healed', {});
      this.#isStale = false;
      this.#failures = 0;
    } catch (error) {
      this.#failures += 1;
      this.#report('flows-not-forgotten', { because: messageOf(error) });
      this.#stale(messageOf(error));
      this.#againLater();
    } finally {
      this.#round = undefined;
    }
  }

  async #all(): Promise<void> {
    const flows = this.#left;
    this.#left = [];
    this.#connections = undefined;
    try {
      const found = (connections: number): void => void (this.#connections = connections);
      const connections = await this.#kernel.forgetFlows(flows, found);
      if (connections > 0) this.#report('flows-forgotten', { connections });
    } catch (error) {
      this.#left = [...flows, ...this.#left];
      throw error;
    }
  }

  #stale(because: string): void {
    this.#isStale = true;
    const connections = this.#connections;
    this.#report('flows-stale', { ...(connections === undefined ? {} : { connections }), because });
  }

  /** Retries after a pause, which does not keep a process from ending. */
  #againLater(): void {
    const ms = pauseBeforeRetry(this.#failures - 1, retries.forgetting);
    setTimeout(() => {
      this.#round ??= this.#start();
    }, ms).unref();
  }
}

const ofKernel = new WeakMap<Kernel, Forgetting>();

/** Deletes the conntrack entries of flows. Call it after the kernel holds the new rules. @see Forgetting.forget */
export async function forgetAfter(
  flows: readonly TrackedFlow[],
  ports: Pick<Ports, 'kernel' | 'report'>,
): Promise<void> {
  if (flows.length === 0) return;
  const forgetting = ofKernel.get(ports.kernel) ?? new Forgetting(ports);
  ofKernel.set(ports.kernel, forgetting);
  await forgetting.forget(flows);
}
