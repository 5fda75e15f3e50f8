import * as v from 'valibot';
import type { Change } from './kernel/changes.ts';
import { limits } from './limits.ts';
import { StateFile } from './store/state-file.ts';

const repair = v.object({
  /** How many steps it took to put the rules right. */
  steps: v.number(),
  /** Who changed them, where the kernel says so: `iptables-nft (process 4711)`, several with commas between them. */
  by: v.nullable(v.string()),
  /** Some of what they changed, each as the command that does it. */
  what: v.array(v.string()),
});

/** Rules of ours that others changed and that were put right. */
export type Repair = v.InferOutput<typeof repair>;

const repairAt = v.object({ ...repair.entries, at: v.string() });

/** A repair with its time of day, in ISO 8601. */
export type RepairAt = v.InferOutput<typeof repairAt>;

const kept = v.object({ schema: v.literal(1), repairs: v.array(repairAt) });

/** Who did what, as far as it is known: who changed none of our chains and jumps is no culprit, unless nobody else was heard of. */
export function repairOf(steps: number, changes: readonly Change[]): Repair {
  const guilty = changes.filter(({ what }) => what.length > 0);
  const heard = guilty.length > 0 ? guilty : changes;
  return {
    steps,
    by: heard.flatMap(({ by }) => by ?? []).join(', ') || null,
    what: heard.flatMap(({ what }) => what).slice(0, limits.changesToldMax),
  };
}

/** The newest repairs of a node, in a file of the state directory, for `sluiced history`. */
export class Repairs {
  readonly #file: StateFile<v.InferOutput<typeof kept>>;

  constructor(state: string) {
    this.#file = new StateFile(`${state}/repairs.json`, kept);
  }

  /** The oldest first. */
  read(): readonly RepairAt[] {
    return this.#file.read()?.repairs ?? [];
  }

  /** @throws StateError when the disk does not take it */
  add(one: RepairAt): void {
    this.#file.write({ schema: 1, repairs: [...this.read(), one].slice(-limits.repairsKept) });
  }
}
