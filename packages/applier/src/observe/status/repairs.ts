import * as v from 'valibot';
import type { ForeignChange } from '../../kernel/changes/foreign-change.ts';
import { limits } from '../../limits.ts';
import { StateFile } from '../../state/state-file.ts';

const repair = v.object({
  /** The number of repair steps. */
  steps: v.number(),
  /** The programs that changed the rules, where the kernel tells: `iptables-nft (process 4711)`, comma-separated. */
  by: v.nullable(v.string()),
  /** Some of their changes, each as the command that makes it. */
  what: v.array(v.string()),
});

/** A drift repair: rules that other programs changed were restored. */
export type Repair = v.InferOutput<typeof repair>;

const repairAt = v.object({ ...repair.entries, at: v.string() });

/** A repair with its time of day, in ISO 8601. */
export type RepairAt = v.InferOutput<typeof repairAt>;

const kept = v.object({ schema: v.literal(1), repairs: v.array(repairAt) });

/**
 * Names the programs behind a repair. Those that changed none of our chains and jumps are left out, unless there are no others.
 * @param removed parts of the table of mode nftables that the repair removed: `chain x`
 */
export function repairOf(steps: number, changes: readonly ForeignChange[], removed: readonly string[] = []): Repair {
  const guilty = changes.filter(({ what }) => what.length > 0);
  const named = guilty.length > 0 ? guilty : changes;
  return {
    steps,
    by: named.flatMap(({ by }) => by ?? []).join(', ') || null,
    what: [
      ...removed.map((part) => `nft add ${part.replace(' ', ' inet sluice ')}`),
      ...named.flatMap(({ what }) => what),
    ].slice(0, limits.changesShownMax),
  };
}

/** The newest repairs of a node, in a file of the state directory, for `sluiced history`. */
export class Repairs {
  readonly #file: StateFile<v.InferOutput<typeof kept>>;

  constructor(state: string) {
    this.#file = new StateFile(`${state}/repairs.json`, kept);
  }

  /** @returns the repairs, oldest first */
  read(): readonly RepairAt[] {
    return this.#file.read()?.repairs ?? [];
  }

  /** @throws StateError when the disk takes no write */
  add(one: RepairAt): void {
    this.#file.write({ schema: 1, repairs: [...this.read(), one].slice(-limits.repairsKept) });
  }
}
