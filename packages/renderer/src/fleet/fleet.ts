import { compareText, type Receipt, type Wave } from '@sluice/bundle';

/** What is known of one node before it is judged. */
export interface Evidence {
  /** Its newest receipt with a good signature of its own key. */
  readonly receipt: Receipt | undefined;
  /** The file of that receipt, relative to the folder of receipts. */
  readonly file: string | undefined;
  /** Why newer files of it do not count, in words. */
  readonly passedOver: readonly string[];
}

/** The release that the fleet is held against. */
export interface Target {
  readonly cluster: string;
  readonly serial: number;
  /** Of its `SHA256SUMS`. */
  readonly digest: string;
  /** Its nodes. */
  readonly nodes: readonly string[];
  readonly waves: readonly Wave[];
  /** How many of the waves are open. Without waves every node may run it. */
  readonly open: number;
}

/**
 * How a node stands to the release, the worst first. `by-hand`: a person put something else there. `behind`: it speaks of another
 * release. `silent`: nothing that it said counts. `waits`: its wave is shut and it is well on what it had.
 */
export const nodeStates = ['held', 'rolled-back', 'refused', 'by-hand', 'silent', 'behind', 'waits', 'runs'] as const;
export type NodeState = (typeof nodeStates)[number];

export interface FleetRow {
  readonly node: string;
  /** From 1; null without waves. */
  readonly wave: number | null;
  readonly state: NodeState;
  /** Why, in words; null where all is well. */
  readonly why: string | null;
  readonly receipt: Receipt | null;
  /** Of the receipt, relative to the folder of receipts. */
  readonly file: string | null;
}

export interface Fleet {
  readonly cluster: string | null;
  /** The serial that nodes are held against; null where nobody said anything. */
  readonly serial: number | null;
  /** Of the release; null where nobody said anything. */
  readonly digest: string | null;
  readonly waves: readonly { readonly name: string; readonly nodes: number; readonly isOpen: boolean }[];
  readonly counts: Readonly<Record<NodeState, number>>;
  /** The worst first, then by name. */
  readonly rows: readonly FleetRow[];
  /** Receipts of nodes that `allowed_receipts` does not name: no evidence, and maybe a node that was forgotten there. */
  readonly strangers: readonly string[];
}

/**
 * Holds what nodes said against a release.
 * @param evidence node → what it said, for every node that may say something
 * @param target left out: the newest release that a receipt speaks of
 */
export function judgeFleet(
  evidence: ReadonlyMap<string, Evidence>,
  strangers: readonly string[],
  target: Target | undefined = newest(evidence),
): Fleet {
  const nodes = [...new Set([...evidence.keys(), ...(target?.nodes ?? [])])];
  const waveOf = new Map((target?.waves ?? []).flatMap((wave, index) => wave.nodes.map((node) => [node, index])));
  const rows = nodes.map((node) => rowOf(node, evidence.get(node), target, waveOf.get(node)));
  const counts = Object.fromEntries(
    nodeStates.map((state) => [state, rows.filter((row) => row.state === state).length]),
  );
  const waves = (target?.waves ?? []).map((wave, index) => ({
    name: wave.name,
    nodes: wave.nodes.length,
    isOpen: index < (target?.open ?? 0),
  }));
  return {
    cluster: target?.cluster ?? null,
    serial: target?.serial ?? null,
    digest: target?.digest ?? null,
    waves,
    counts: counts as Record<NodeState, number>,
    rows: rows.toSorted((a, b) => rank(a) - rank(b) || compareText(a.node, b.node)),
    strangers: strangers.toSorted(compareText),
  };
}

const rank = ({ state }: FleetRow): number => nodeStates.indexOf(state);

/** True when no node is anywhere it should not be. */
export function isWell({ counts, rows }: Fleet): boolean {
  return rows.length > 0 && counts.runs + counts.waits === rows.length;
}

/**
 * The newest release that any node speaks of; of two with one serial one that a node runs, since an update of endpoints that was refused
 * is no measure for others, and then the one that sorts first, so that the answer is always the same.
 */
function newest(evidence: ReadonlyMap<string, Evidence>): Target | undefined {
  const spoken = [...evidence.values()].flatMap(({ receipt }) =>
    receipt?.release ? [{ ...receipt.release, runs: saysYes(receipt) }] : [],
  );
  const [first] = spoken.toSorted(
    (a, b) => b.serial - a.serial || Number(b.runs) - Number(a.runs) || compareText(a.digest, b.digest),
  );
  return first && { ...first, nodes: [...evidence.keys()], waves: [], open: 0 };
}

const saysYes = ({ outcome }: Receipt): boolean => outcome === 'confirmed' || outcome === 'same';

/** @param index of the wave of the node; undefined when it is in none */
function rowOf(
  node: string,
  { receipt, file, passedOver }: Evidence = nothing,
  target: Target | undefined,
  index: number | undefined,
): FleetRow {
  const isShut = index !== undefined && index >= (target?.open ?? 0);
  const wave = index === undefined ? null : index + 1;
  if (receipt === undefined) {
    const why = passedOver.length === 0 ? 'no receipt is there' : `no receipt counts: ${passedOver.join('; ')}`;
    return { node, wave, receipt: null, file: null, state: 'silent', why };
  }
  const { state, why } = stateOf(receipt, target, isShut);
  const note = passedOver.length === 0 ? '' : `newer files do not count: ${passedOver.join('; ')}`;
  const both = [why, note].filter((part) => part !== null && part !== '').join('; ');
  return { node, wave, receipt, file: file ?? null, state, why: both === '' ? null : both };
}

const nothing: Evidence = { receipt: undefined, file: undefined, passedOver: [] };

function stateOf(
  receipt: Receipt,
  target: Target | undefined,
  isShut: boolean,
): { readonly state: NodeState; readonly why: string | null } {
  const { outcome, release, because } = receipt;
  const why = because ?? outcome;
  if (outcome === 'held') return { state: 'held', why };
  if (outcome === 'chosen' || outcome === 'removed') return { state: 'by-hand', why };
  const isAbout = release !== null && release.digest === target?.digest;
  if (isAbout || release === null) {
    if (outcome === 'refused' || outcome === 'rolled-back') return { state: outcome, why };
    if (isAbout) return { state: 'runs', why: failingIn(receipt) };
  }
  if ((outcome === 'refused' || outcome === 'rolled-back') && isOfSerial(receipt, target))
    return { state: outcome, why: `other content of serial ${target?.serial}, as of an update of endpoints: ${why}` };
  if (isShut && saysYes(receipt)) return { state: 'waits', why: null };
  return { state: 'behind', why: speaksOf(receipt, target) };
}

/** The probes that failed before the release went in and fail still. */
function failingIn({ probes }: Receipt): string | null {
  const failing = probes.filter(({ healthy }) => !healthy).map(({ name }) => name);
  return failing.length === 0 ? null : `with failing probes: ${failing.join(', ')}`;
}

/** Whether it is about other content with the serial of the release, as an update of its endpoints has: who refuses that is not well on it. */
function isOfSerial({ release }: Receipt, target: Target | undefined): boolean {
  return release !== null && release.cluster === target?.cluster && release.serial === target.serial;
}

function speaksOf({ release, outcome }: Receipt, target: Target | undefined): string {
  if (release === null) return 'it runs a bundle that is no release';
  const serial =
    release.serial === target?.serial ? `another release with serial ${release.serial}` : `release ${release.serial}`;
  return `it speaks of ${serial}: ${outcome}`;
}
