import { addAll } from '../add-all.ts';
import { Layered } from '../layered.ts';
import { settingsElements, type TableElement } from './elements.ts';
import { nftLimits } from './limits.ts';
import { listChain } from './lists.ts';
import { chainsFor, elementId, elementsOf, gateOf, type PlacedElement, type Placement, sharedId } from './placement.ts';
import { printElements } from './print.ts';
import type { NftState } from './state.ts';

/** What a table shall hold. */
type Target = Pick<Placement, 'state' | 'inHalfB' | 'overlay'>;

/** A change of the table in two transactions. */
export interface PlacementChange {
  /** Adds, replaces, and removes what decides about packets; `''` if there is nothing to do. */
  readonly first: string;
  readonly afterFirst: Placement;
  /** What another program added to the table, and `first` removes. */
  readonly removes?: readonly string[];
  /**
   * Removes what nothing refers to any more, at least `nftLimits.inFlightMs` later: a packet may read a verdict before the first
   * transaction, and the list that it leads to after it; the same with `tkey` and the overlay. `''` if there is nothing to do.
   */
  readonly late: string;
  readonly afterLate: Placement;
}

/**
 * The smallest change from what a table holds to what it shall hold.
 *
 * A replaced element is deleted and added again: the kernel refuses to add a key with another value, and `delete` compares keys alone.
 * @param keys the frontends that may differ
 */
export function changePlacement(from: Placement, target: Target, keys: Iterable<string>): PlacementChange {
  const removed: TableElement[] = [];
  const added: TableElement[] = [];
  const uses = new Tally(from.uses);
  const left: [string, readonly PlacedElement[] | undefined][] = [];
  const chains = new Map(from.chains);
  const created: string[] = [];
  for (const key of new Set([...keys, ...from.left.keys()])) {
    for (const chain of chainsFor(from, key)) chains.set(chain, (chains.get(chain) ?? 1) - 1);
    for (const chain of chainsFor(target, key)) {
      if (!chains.has(chain)) addAll(created, createList(chain));
      chains.set(chain, (chains.get(chain) ?? 0) + 1);
    }
    const own = changeFrontend(from, target, key, uses);
    addAll(removed, own.removed);
    addAll(added, own.added);
    left.push([key, own.left.length > 0 ? own.left : undefined]);
  }
  const settings = changeSettings(from.state.settings, target.state.settings);
  const afterFirst: Placement = {
    ...target,
    left: new Map(left.flatMap(([key, elements]) => (elements ? [[key, elements] as const] : []))),
    uses: uses.after,
    chains,
  };
  const deleting = printElements('delete', [...removed, ...settings.removed]);
  const adding = printElements('add', [...added, ...uses.added, ...settings.added]);
  const first = `${created.map((command) => `${command}\n`).join('')}${deleting}${adding}`;
  return { first, afterFirst, ...collect(afterFirst) };
}

/** The commands that create the chain of a list, or replace its rules where it exists. */
export function createList(name: string): readonly string[] {
  return listChain(name).flatMap((command) => {
    const created = /^add chain (.*)$/.exec(command)?.[1];
    return created === undefined ? [command] : [command, `flush chain ${created}`];
  });
}

/** Removes the elements that nothing refers to; and chains that no frontend uses, once there are many: an endpoint that left comes again. */
function collect(from: Placement): Pick<PlacementChange, 'late' | 'afterLate'> {
  const uses = new Tally(from.uses);
  const removed: TableElement[] = [];
  for (const elements of from.left.values()) {
    for (const { part, element } of elements) {
      if (part === 'shared') uses.count(element, -1);
      else removed.push(element);
    }
  }
  const unused = [...from.chains].flatMap(([chain, users]) => (users === 0 ? [chain] : []));
  const dropped = new Set(unused.length > nftLimits.unusedListsMax ? unused : []);
  const late = `${printElements('delete', [...removed, ...uses.removed])}${[...dropped].map(dropList).join('')}`;
  const chains = new Map([...from.chains].filter(([chain]) => !dropped.has(chain)));
  return { late, afterLate: { ...from, left: new Map(), uses: uses.after, chains } };
}

/** The commands that remove the chain of a list, and what it jumps to. */
function dropList(name: string): string {
  const chains = listChain(name).flatMap((command) => /^add chain (.*)$/.exec(command)?.[1] ?? []);
  return ['flush', 'delete'].flatMap((verb) => chains.map((chain) => `${verb} chain ${chain}\n`)).join('');
}

interface FrontendChange {
  readonly removed: readonly TableElement[];
  readonly added: readonly TableElement[];
  readonly left: readonly PlacedElement[];
}

function changeFrontend(from: Placement, target: Target, key: string, uses: Tally): FrontendChange {
  const before = elementsOf(from, key);
  for (const placed of from.left.get(key) ?? []) before.set(elementId(placed.element), placed);
  const after = elementsOf(target, key);
  const removed: TableElement[] = [];
  const added: TableElement[] = [];
  const left: PlacedElement[] = [];
  for (const [id, { part, element }] of after) {
    const held = before.get(id);
    if (held?.element.value === element.value) continue;
    if (held) removed.push(held.element);
    if (part === 'shared') uses.count(element, 1);
    else added.push(element);
  }
  for (const [id, placed] of before) {
    if (after.has(id)) continue;
    const gate = gateOf(placed.element);
    const isLate = placed.part !== 'serving' || (gate !== undefined && !after.has(elementId(gate)));
    if (isLate) left.push(placed);
    else removed.push(placed.element);
  }
  return { removed, added, left };
}

/** Counts the frontends that have a shared element. */
class Tally {
  readonly #before: Placement['uses'];
  readonly #changes = new Map<string, { readonly element: TableElement; by: number }>();

  constructor(before: Placement['uses']) {
    this.#before = before;
  }

  count(element: TableElement, by: 1 | -1): void {
    const id = sharedId(element);
    const change = this.#changes.get(id);
    if (change) change.by += by;
    else this.#changes.set(id, { element, by });
  }

  get after(): Placement['uses'] {
    const changed = [...this.#changes].map(([id, { by }]) => {
      const count = (this.#before.get(id) ?? 0) + by;
      return [id, count > 0 ? count : undefined] as const;
    });
    return Layered.of(this.#before).with(changed);
  }

  get added(): readonly TableElement[] {
    return this.#where((before, after) => before === 0 && after > 0);
  }

  get removed(): readonly TableElement[] {
    return this.#where((before, after) => before > 0 && after <= 0);
  }

  #where(holds: (before: number, after: number) => boolean): readonly TableElement[] {
    return [...this.#changes].flatMap(([id, { element, by }]) => {
      const before = this.#before.get(id) ?? 0;
      return holds(before, before + by) ? [element] : [];
    });
  }
}

function changeSettings(
  from: NftState['settings'],
  to: NftState['settings'],
): { readonly removed: readonly TableElement[]; readonly added: readonly TableElement[] } {
  if (from === to) return { removed: [], added: [] };
  const [before, after] = [settingsElements(from), settingsElements(to)];
  const only = (some: readonly TableElement[], others: readonly TableElement[]): readonly TableElement[] => {
    const known = new Set(others.map(elementId));
    return some.filter((element) => !known.has(elementId(element)));
  };
  return { removed: only(before, after), added: only(after, before) };
}
