import { inOnePiece } from '../in-one-piece.ts';
import { differing, Layered } from '../layered.ts';
import { frontendLines, readFrontend } from './frontend.ts';
import type { NftState } from './state.ts';

/**
 * A frontend's lines as a file has them, with what they became beside the active ones. Those are not kept: they are parts of the text of a
 * whole block of frontends, and 16 kB of it stayed in memory for each frontend that changed.
 */
const placed = new WeakMap<
  readonly string[],
  { readonly activeLines: WeakRef<readonly string[]>; readonly lines: readonly string[] }
>();

/** What the frontends were before they got their places: a frontend that has the same lines again has the same places. */
const unplaced = new WeakMap<NftState['frontends'], NftState['frontends']>();

/**
 * The state with endpoints in the places that they have already: one that left is replaced by one that came, or by the last one.
 * So an endpoint update changes few slots, and both states share the lines of equal frontends.
 * @param active what the node runs
 */
export function keepSlots(state: NftState, active: NftState | undefined): NftState {
  if (!active) return state;
  const before = unplaced.get(active.frontends) ?? active.frontends;
  const changes = differing(before, state.frontends).map((key) => {
    const [lines, activeLines] = [state.frontends.get(key), active.frontends.get(key)];
    return [key, lines && activeLines ? placedLines(key, lines, activeLines) : lines] as const;
  });
  const frontends = Layered.of(active.frontends).with(changes);
  unplaced.set(frontends, state.frontends);
  const isSame =
    state.settings.length === active.settings.length && state.settings.every((one, at) => one === active.settings[at]);
  return {
    settings: isSame ? active.settings : state.settings,
    frontends,
  };
}

function placedLines(key: string, lines: readonly string[], activeLines: readonly string[]): readonly string[] {
  if (lines === activeLines) return activeLines;
  const known = placed.get(lines);
  if (known?.activeLines.deref() === activeLines) return known.lines;
  const [updated, old] = [readFrontend(key, lines), readFrontend(key, activeLines)];
  const own = frontendLines({
    ...updated,
    endpoints: inPlace(updated.endpoints, old.endpoints),
    local: inPlace(updated.local, old.local),
  });
  // What is as it was needs no note: the active lines would stay with it.
  if (own.length === activeLines.length && own.every((line, at) => line === activeLines[at])) return activeLines;
  const next = own.map(inOnePiece);
  placed.set(lines, { activeLines: new WeakRef(activeLines), lines: next });
  return next;
}

/** A list in the order of the old one as far as it goes. */
function inPlace(updated: readonly string[], old: readonly string[]): readonly string[] {
  const stays = new Set(updated);
  const had = new Set(old);
  const come = updated.filter((one) => !had.has(one));
  const slots: (string | undefined)[] = old.map((one) => (stays.has(one) ? one : come.shift()));
  for (const one of come) slots.push(one);
  // Holes that no new endpoint fills get the last ones.
  for (let at = 0; at < slots.length; at++) {
    while (slots.length > at && slots.at(-1) === undefined) slots.pop();
    if (at < slots.length && slots[at] === undefined) slots[at] = slots.pop();
  }
  return slots as readonly string[];
}
