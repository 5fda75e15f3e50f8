import { Layered } from '../link/layered.ts';
import { frontendLines, readFrontend } from './frontend.ts';
import type { NftState } from './state.ts';

/** A frontend's lines as a file has them, with what they became beside the active ones. */
const placed = new WeakMap<
  readonly string[],
  { readonly beside: readonly string[]; readonly lines: readonly string[] }
>();

/**
 * The state with endpoints in the places that they have already: one that left is replaced by one that came, or by the last one.
 * So an endpoint update changes few slots, and both states share the lines of equal frontends.
 * @param active what the node runs
 */
export function keepSlots(state: NftState, active: NftState | undefined): NftState {
  if (!active) return state;
  const changes: [string, readonly string[] | undefined][] = [];
  for (const [key, lines] of state.frontends) {
    const beside = active.frontends.get(key);
    const next = beside ? placedLines(key, lines, beside) : lines;
    if (next !== beside) changes.push([key, next]);
  }
  for (const key of active.frontends.keys()) if (!state.frontends.has(key)) changes.push([key, undefined]);
  const isSame =
    state.settings.length === active.settings.length && state.settings.every((one, at) => one === active.settings[at]);
  return {
    settings: isSame ? active.settings : state.settings,
    frontends: Layered.of(active.frontends).with(changes),
  };
}

function placedLines(key: string, lines: readonly string[], beside: readonly string[]): readonly string[] {
  if (lines === beside) return beside;
  const known = placed.get(lines);
  if (known?.beside === beside) return known.lines;
  const [fresh, old] = [readFrontend(key, lines), readFrontend(key, beside)];
  const own = frontendLines({
    ...fresh,
    endpoints: inPlace(fresh.endpoints, old.endpoints),
    local: inPlace(fresh.local, old.local),
  });
  const next = own.length === beside.length && own.every((line, at) => line === beside[at]) ? beside : own;
  placed.set(lines, { beside, lines: next });
  return next;
}

/** A list in the order of the old one as far as it goes. */
function inPlace(fresh: readonly string[], old: readonly string[]): readonly string[] {
  const stays = new Set(fresh);
  const had = new Set(old);
  const come = fresh.filter((one) => !had.has(one));
  const slots: (string | undefined)[] = old.map((one) => (stays.has(one) ? one : come.shift()));
  for (const one of come) slots.push(one);
  // Holes that no new endpoint fills get the last ones.
  for (let at = 0; at < slots.length; at++) {
    while (slots.length > at && slots.at(-1) === undefined) slots.pop();
    if (at < slots.length && slots[at] === undefined) slots[at] = slots.pop();
  }
  return slots as readonly string[];
}
