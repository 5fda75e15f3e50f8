import type { TableName } from '@sluice/netfilter';
import type { Switch, SwitchState } from '../ports/kernel.ts';

/** The switch of a node that has one for layout `tree` and one for mode nftables. */
export class EitherSwitch implements Switch {
  readonly #ofTables: Switch;
  readonly #ofNft: Switch;
  /** The one in use; undefined: not known, because an earlier process chose it, or there is none. */
  #used: Switch | undefined;

  constructor(ofTables: Switch, ofNft: Switch) {
    this.#ofTables = ofTables;
    this.#ofNft = ofNft;
  }

  async look(): Promise<Readonly<Record<TableName, SwitchState>> | undefined> {
    if (this.#used) return this.#used.look();
    for (const one of this.#both) {
      const state = await one.look();
      if (!state) continue;
      this.#used = one;
      return state;
    }
    return undefined;
  }

  get #both(): readonly Switch[] {
    return [this.#ofNft, this.#ofTables];
  }

  async make(sources: readonly string[], withOwn?: boolean, isNft = false): Promise<void> {
    this.#used = isNft ? this.#ofNft : this.#ofTables;
    await this.#used.make(sources, withOwn);
  }

  async on(seconds: number): Promise<void> {
    if (!this.#used) await this.look();
    await (this.#used ?? this.#ofTables).on(seconds);
  }

  async off(table: TableName): Promise<void> {
    for (const one of this.#used ? [this.#used] : this.#both) await one.off(table);
  }

  async remove(): Promise<void> {
    for (const one of this.#used ? [this.#used] : this.#both) await one.remove();
    this.#used = undefined;
  }
}
