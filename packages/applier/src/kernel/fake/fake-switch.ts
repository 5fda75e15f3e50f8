import { KernelError } from '../../ports/failure.ts';
import { type TableName, switches } from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import type { SwitchState, Switch } from '../../ports/kernel.ts';

/** The sets of a kernel in memory, with their timeouts. */
export class FakeSwitch implements Switch {
  readonly #nowMs: () => number;
  readonly #isNamed: (set: string) => boolean;
  /** When each table's entries expire, by its set; undefined: no entries. */
  #sets: Map<string, number | undefined> | undefined;

  /**
   * @param nowMs the kernel's clock
   * @param isNamed whether a rule names a set
   */
  constructor(nowMs: () => number, isNamed: (set: string) => boolean) {
    this.#nowMs = nowMs;
    this.#isNamed = isNamed;
  }

  /** Whether a set of this name exists. */
  has(set: string): boolean {
    return this.#sets?.has(set) ?? false;
  }

  /** Whether all packets match a set. */
  holds(set: string): boolean {
    return (this.#sets?.get(set) ?? -Infinity) > this.#nowMs();
  }

  async look(): Promise<Readonly<Record<TableName, SwitchState>> | undefined> {
    return this.#sets && { nat: this.#switchState('nat'), filter: this.#switchState('filter') };
  }

  #switchState(table: TableName): SwitchState {
    if (!this.holds(switches[table])) return 'off';
    return this.#sets?.get(switches[table]) === Infinity ? 'pinned' : 'on';
  }

  async make(): Promise<void> {
    this.#sets ??= new Map(Object.values(switches).map((name) => [name, undefined]));
  }

  async on(seconds: number): Promise<void> {
    if (!this.#sets) throw new KernelError('fake ipset', `there is no set ${switches.filter}`, 'refused');
    const until = (plus: number): number => (seconds === 0 ? Infinity : this.#nowMs() + (seconds + plus) * 1000);
    this.#sets.set(switches.filter, until(limits.deadmanFilterSeconds));
    this.#sets.set(switches.nat, until(0));
  }

  async off(table: TableName): Promise<void> {
    this.#sets?.set(switches[table], undefined);
  }

  async remove(): Promise<void> {
    const named = [...(this.#sets?.keys() ?? [])].find(this.#isNamed);
    if (named !== undefined) throw new KernelError('fake ipset', `a rule names ${named}`, 'refused');
    this.#sets = undefined;
  }

  /** A reboot removes all sets. */
  clear(): void {
    this.#sets = undefined;
  }
}
