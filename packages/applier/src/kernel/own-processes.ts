import { limits } from '../limits.ts';

/** The processes that Sluice started itself, the newest of them: what they change is no drift. */
export class OwnProcesses {
  readonly #pids = new Set<number>();

  /** To be called before the process can have changed anything. */
  add(pid: number): void {
    this.#pids.delete(pid);
    this.#pids.add(pid);
    const [oldest] = this.#pids;
    if (this.#pids.size > limits.ownProcessesKept && oldest !== undefined) this.#pids.delete(oldest);
  }

  has(pid: number): boolean {
    return this.#pids.has(pid);
  }
}
