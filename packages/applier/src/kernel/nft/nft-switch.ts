import { addAll, disjoint, type TableName, trialOff } from '@sluice/netfilter';
import type { Switch, SwitchState } from '../../ports/kernel.ts';

/** An element of a set whose key is one word. */
export interface SetMember {
  readonly key: string;
  readonly isTimed: boolean;
}

/** The sets of the table. */
export interface NftSets {
  /** Carries out a text as one transaction. @throws KernelError when the kernel takes nothing of it */
  load(text: string): Promise<void>;
  /** @returns undefined if there is no such set */
  members(set: string): Promise<readonly SetMember[] | undefined>;
}

/** Addresses of this node. */
type OwnAddresses = () => readonly string[];

/**
 * The switch of mode nftables: the sets `trial4` and `trial6`, whose sources meet the overlay. Both change in one transaction, and one
 * rule each for nat, filter and masquerade asks them, so there is nothing in between. Their elements time out, which makes them the
 * dead-man switch.
 *
 * A renewal deletes the element and adds it again, in one transaction: the kernel refuses both when the element has expired. So a process
 * that was stopped for too long cannot turn the switch on again.
 */
export class NftSwitch implements Switch {
  readonly isOnlyNft = true;
  readonly #sets: NftSets;
  readonly #own: OwnAddresses;
  #sources: readonly string[] = everything;
  #isOn = false;

  constructor(sets: NftSets, own: OwnAddresses) {
    this.#sets = sets;
    this.#own = own;
  }

  /** The sets exist as long as the table does; the switch exists while there is an overlay, or where it was left on. */
  async look(): Promise<Readonly<Record<TableName, SwitchState>> | undefined> {
    const trial = await this.#members('trial4', 'trial6');
    if (trial.length === 0 && (await this.#members('tkey4', 'tkey6')).length === 0) return undefined;
    const state = trial.length === 0 ? 'off' : trial.every(({ isTimed }) => !isTimed) ? 'pinned' : 'on';
    return { nat: state, filter: state };
  }

  async #members(...sets: readonly string[]): Promise<readonly SetMember[]> {
    const found: SetMember[] = [];
    for (const set of sets) addAll(found, (await this.#sets.members(set)) ?? []);
    return found;
  }

  async make(sources: readonly string[], withOwn = false): Promise<void> {
    const chosen = withOwn ? [...sources, ...this.#own()] : sources;
    this.#sources = sources.length === 0 ? everything : disjoint(chosen);
    this.#isOn = false;
  }

  async on(seconds: number): Promise<void> {
    const time = seconds === 0 ? '' : ` timeout ${seconds}s`;
    const forEach = (verb: 'add' | 'delete', suffix: string): string =>
      (['4', '6'] as const)
        .map((n) => {
          const own = this.#sources.filter((one) => one.includes(':') === (n === '6'));
          const elements = own.map((one) => `${one}${suffix}`).join(', ');
          return own.length === 0 ? '' : `${verb} element inet sluice trial${n} { ${elements} }\n`;
        })
        .join('');
    const before = this.#isOn && seconds > 0 ? forEach('delete', '') : trialOff;
    await this.#sets.load(`${before}${forEach('add', time)}`);
    this.#isOn = true;
  }

  /** One switch for both tables: nat's turns it off. */
  async off(table: TableName): Promise<void> {
    if (table === 'filter') return;
    this.#isOn = false;
    try {
      await this.#sets.load(trialOff);
    } catch (error) {
      // Only now, because reading takes as long as turning it off.
      if ((await this.#sets.members('trial4')) !== undefined) throw error;
    }
  }

  async remove(): Promise<void> {
    if (this.#isOn) await this.off('nat');
    this.#sources = everything;
  }
}

const everything = ['0.0.0.0/0', '::/0'];
