import {
  compareText,
  type Family,
  familySuffix,
  type Half,
  type NftState,
  numberedKey,
  readListName,
  readFrontendKey,
  slotOf,
  printElements,
  printNft,
  printNftTable,
  settingsElements,
  type TableElement,
  allElements,
  createList,
  gateOf,
  type Placement,
  type PlacementChange,
  settledPlacement,
  tableOptions,
  trialOff,
} from '@sluice/netfilter';
import { damagedLists, foreignObjects, hasTable, ownSets, type ObservedNft, readTableText } from './observed.ts';

export const dropText = 'delete table inet sluice\n';

/**
 * The change from what the kernel shows to a state, whatever an earlier process left: half a release on probation, lists in both halves,
 * foreign elements. Each frontend stays in the half in which the kernel has it.
 * @param observed undefined: there is no table
 */
export function repairTable(observed: ObservedNft | undefined, state: NftState): PlacementChange {
  if (!observed || !hasTable(observed, state.settings)) return loadTable(state, observed !== undefined);
  const foreign = foreignObjects(observed, state.settings);
  if (!foreign.every((part) => removable.test(part))) return { ...loadTable(state, true), removes: foreign };
  const { settled, commands, added, removed, left, isOnTrial } = compareTable(observed, state);
  return {
    first: `${isOnTrial ? trialOff : ''}${emptyParts(foreign)}${commands}${changeElements(removed, added)}${deleteParts(foreign)}`,
    afterFirst: settled,
    removes: foreign,
    late: printElements('delete', left),
    afterLate: settled,
  };
}

/**
 * The text that makes what packets of one family meet by default that of a state, for a kernel that refuses `repairTable`. What a release has
 * left in the table stays.
 * @param observed undefined: there is no table
 * @returns the text, `''` if nothing differs, and the table without what is left; undefined if it is one of other settings, which changes as a
 *   whole
 */
export function repairFamily(
  observed: ObservedNft | undefined,
  state: NftState,
  family: Family,
): { readonly text: string; readonly settled: Placement } | undefined {
  const table = printNftTable(tableOptions(state.settings));
  const held = observed ?? readTableText(table);
  if (!hasTable(held, state.settings)) return undefined;
  const { settled, commands, added, removed } = compareTable(held, state);
  const isOwn = ({ set }: TableElement): boolean => set.endsWith(familySuffix[family]) && !overlaySets.test(set);
  const text = changeElements(removed.filter(isOwn), added.filter(isOwn));
  return { text: `${observed ? '' : table}${text === '' ? '' : commands}${text}`, settled };
}

interface TableDifference extends Difference {
  /** The table that holds the state alone. */
  readonly settled: Placement;
  /** Create the chains of lists that it lacks. */
  readonly commands: string;
}

function compareTable(observed: ObservedNft, state: NftState): TableDifference {
  const damaged = damagedLists(observed);
  const chains = new Set([...observed.chains.keys()].filter((name) => readListName(name) && !damaged.has(name)));
  const after = settledPlacement(state, halvesOf(observed, state), chains);
  const withDamaged = [...damaged].map((name) => [name, after.chains.get(name) ?? 0] as const);
  const settled = { ...after, chains: new Map([...after.chains, ...withDamaged]) };
  const created = [...settled.chains.keys()].filter((name) => !chains.has(name)).flatMap(createList);
  const commands = created.map((command) => `${command}\n`).join('');
  return { settled, commands, ...compareElements(observed, after) };
}

const changeElements = (removed: readonly TableElement[], added: readonly TableElement[]): string =>
  `${printElements('delete', removed)}${printElements('add', added)}`;

/** Parts that another program can have added, under names that need no quotes. Any other one goes with the whole table. */
const removable = /^(?:chain|set|map) [A-Za-z][\w./-]*$/;

/** First: they may refer to each other, and to our chains. */
const emptyParts = (parts: readonly string[]): string => parts.map((part) => `flush ${inTable(part)}\n`).join('');
/** Last: no element leads to them any more. Chains before sets, which their rules named. */
const deleteParts = (parts: readonly string[]): string =>
  parts
    .toSorted(compareText)
    .map((part) => `delete ${inTable(part)}\n`)
    .join('');
const inTable = (part: string): string => part.replace(' ', ' inet sluice ');

/** Whether a table holds a state by default, whatever is on probation or left over beside it. */
export function holdsByDefault(observed: ObservedNft, state: NftState): boolean {
  if (!hasTable(observed, state.settings)) return false;
  const { added, removed } = compareElements(observed, settledPlacement(state, halvesOf(observed, state)));
  return added.length === 0 && removed.every(({ set }) => overlaySets.test(set));
}

/** Whether a table holds all that a placement says, also what is on probation. */
export function holdsPlacement(observed: ObservedNft, placement: Placement): boolean {
  if (!hasTable(observed, placement.state.settings)) return false;
  return compareElements(observed, placement).added.length === 0;
}

const overlaySets = /^t(?:key|svc|out|none|fw|always|near|allow)[46]$/;

/** The whole table in one transaction, also in place of another one. */
export function loadTable(state: NftState, hasOther: boolean): PlacementChange {
  const placement = settledPlacement(state, new Map());
  const first = `${hasOther ? dropText : ''}${printNft(state)}`;
  return { first, afterFirst: placement, late: '', afterLate: placement };
}

/** The frontends whose verdicts lead to half b; where the verdict is missing, those that have a list there alone. */
function halvesOf({ elements }: ObservedNft, { frontends }: NftState): Placement['inHalfB'] {
  const inHalfB = new Map<string, true>();
  const has = (set: string, key: string): boolean => elements.get(set)?.has(key) === true;
  for (const key of frontends.keys()) {
    const { family, address, protocol, port } = readFrontendKey(key);
    const n = familySuffix[family];
    const own = numberedKey({ address, protocol, port });
    const verdict = elements.get(`svc${n}`)?.get(own) ?? elements.get(`out${n}`)?.get(own);
    const inHalf = (half: Half): boolean =>
      [false, true].some((isLocal) => {
        const slot = slotOf(0, half, isLocal);
        return has(`${protocol}${n}`, `${address} . ${port} . ${slot}`) || has(`slot${n}`, `${own} . ${slot}`);
      });
    if (
      verdict === undefined
        ? inHalf('b') && !inHalf('a')
        : readListName(verdict.slice('goto '.length))?.isHalfB === true
    )
      inHalfB.set(key, true);
  }
  return inHalfB;
}

interface Difference {
  readonly added: readonly TableElement[];
  /** Removed with the first transaction, also in favour of another value. */
  readonly removed: readonly TableElement[];
  /** Lists that nothing refers to. */
  readonly left: readonly TableElement[];
  readonly isOnTrial: boolean;
}

/** Sets and maps whose elements are read only after a verdict, or in which a further element does no harm. */
const lateSets = /^(?:tcp|udp|sctp|slot|id|idb|lid|lidb|sticky|loop|cluster)[46]$/;
const trialSets = /^trial[46]$/;

function compareElements({ elements }: ObservedNft, placement: Placement): Difference {
  const expected = new Map<string, Map<string, string>>();
  const expect = ({ set, key, value }: TableElement): void => {
    const own = expected.get(set) ?? new Map<string, string>();
    expected.set(set, own.set(key, value));
  };
  const own = ownSets(placement.state.settings);
  for (const { element } of allElements(placement).values()) expect(element);
  for (const element of settingsElements(placement.state.settings)) expect(element);
  const found = { added: [] as TableElement[], removed: [] as TableElement[], left: [] as TableElement[] };
  let isOnTrial = false;
  for (const [set, held] of elements) {
    if (!own.has(set)) continue;
    const wanted = expected.get(set);
    if (trialSets.test(set)) isOnTrial ||= held.size > 0;
    else
      for (const [key, value] of held) {
        if (wanted?.get(key) === value) continue;
        const gate = gateOf({ set, key });
        const isBehind = gate !== undefined && expected.get(gate.set)?.has(gate.key) !== true;
        const isLate = wanted?.has(key) !== true && (isBehind || lateSets.test(set));
        (isLate ? found.left : found.removed).push({ set, key, value });
      }
  }
  for (const [set, wanted] of expected)
    for (const [key, value] of wanted) if (elements.get(set)?.get(key) !== value) found.added.push({ set, key, value });
  return { ...found, isOnTrial };
}
