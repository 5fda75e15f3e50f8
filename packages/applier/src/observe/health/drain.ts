import type { Ineligibility } from '@sluice/bundle';
import * as v from 'valibot';
import { limits } from '../../limits.ts';
import type { DrainState, DrainView } from '../../ports/drain.ts';
import { StateFile } from '../../state/state-file.ts';

const schema = v.strictObject({
  since: v.string(),
  until: v.nullable(v.string()),
  because: v.picklist(['operator', 'shutdown']),
  boot: v.string(),
});

/** A client of the ports for load balancers. */
interface Asker {
  readonly atMs: number;
  /** How often it was told of this drain. */
  readonly told: number;
}

/** Whether the node is drained, kept over restarts of the process and not over a boot, and who was told. */
export class Drain implements DrainView {
  readonly #file: StateFile<v.InferOutput<typeof schema>>;
  readonly #boot: string;
  readonly #nowMs: () => number;
  /** By address; the newest last. */
  readonly #askers = new Map<string, Asker>();
  /** What the newest bundle says of this node. */
  ineligible: Ineligibility | undefined;

  /** @param boot the id of this boot: another one ends a drain */
  constructor(state: string, boot: string, nowMs: () => number) {
    this.#file = new StateFile(`${state}/drain.json`, schema);
    this.#boot = boot;
    this.#nowMs = nowMs;
  }

  /** Undefined: the node is not drained. */
  get now(): DrainState | undefined {
    const drain = this.#file.read();
    if (drain?.boot !== this.#boot) return undefined;
    const { since, until, because } = drain;
    if (until !== null && Date.parse(until) <= this.#nowMs()) return undefined;
    return { since, until, because, untold: this.#untold };
  }

  /**
   * Begins a drain, or sets the end of the present one.
   * @param seconds until its end; null: it has none
   * @throws StateError when the disk takes no write; then this process drains nonetheless
   */
  begin(seconds: number | null, because: DrainState['because']): void {
    const nowMs = this.#nowMs();
    const present = this.now;
    if (!present) for (const [who, one] of this.#askers) this.#askers.set(who, { ...one, told: 0 });
    const until = seconds === null ? null : new Date(nowMs + seconds * 1000).toISOString();
    this.#write({ since: present?.since ?? new Date(nowMs).toISOString(), until, because, boot: this.#boot });
  }

  /** Ends it. @throws as `begin` */
  end(): void {
    // A boot without an id: as if it were from before.
    this.#write({ since: new Date(this.#nowMs()).toISOString(), until: null, because: 'operator', boot: '' });
  }

  /** A client of a port for load balancers is answered. */
  answers(address: string): void {
    const before = this.#askers.get(address);
    this.#askers.delete(address);
    const told = this.now ? (before?.told ?? 0) + 1 : 0;
    this.#askers.set(address, { atMs: this.#nowMs(), told });
    const [oldest] = this.#askers.keys();
    if (this.#askers.size > limits.drain.askersMax && oldest !== undefined) this.#askers.delete(oldest);
  }

  get #untold(): number {
    const sinceMs = this.#nowMs() - limits.drain.askerMs;
    return [...this.#askers.values()].filter(({ atMs, told }) => atMs >= sinceMs && told < limits.drain.told).length;
  }

  #write(value: v.InferOutput<typeof schema>): void {
    this.#file.remember(value);
    this.#file.write(value);
  }
}
