import { compareText } from '@sluice/netfilter';
import type { Receipt, Wave } from '@sluice/bundle';

/** The receipts of one node. */
export interface Evidence {
  /** Its newest receipt with a valid signature of its own key. */
  readonly receipt: Receipt | undefined;
  /** The file of that receipt, relative to the folder of receipts. */
  readonly file: string | undefined;
  /** Why newer receipts are ignored, in words. */
  readonly passedOver: readonly string[];
}

/** The release to compare the fleet with. */
export interface RolloutTarget {
  readonly cluster: string;
  readonly serial: number;
  /** Of its `SHA256SUMS`. */
  readonly digest: string;
  /** Its nodes. */
  readonly nodes: readonly string[];
  readonly waves: readonly Wave[];
  /** The number of open waves. Without waves every node applies the release. */
  readonly open: number;
}

/**
 * The state of a node, the worst first. `partial`: it runs the release without some Services. `by-hand`: an operator activated other rules.
 * `behind`: its receipt is about another release. `silent`: no valid receipt. `waits`: its wave is closed, and it runs its previous release
 * without problems.
 */
export const nodeStates = [
  'held',
  'rolled-back',
  'partial',
  'refused',
  'by-hand',
  'silent',
  'behind',
  'waits',
  'runs',
] as const;
export type NodeRolloutState = (typeof nodeStates)[number];

export interface FleetRow {
  readonly node: string;
  /** From 1; null without waves. */
  readonly wave: number | null;
  readonly state: NodeRolloutState;
  /** The reason, in words; null without problems. */
  readonly why: string | null;
  readonly receipt: Receipt | null;
  /** The file of the receipt, relative to the folder of receipts. */
  readonly file: string | null;
  /** The modes of what the node ran when it was compared with a bundle; null: it was not. */
  readonly observed: readonly string[] | null;
}

export interface FleetStatus {
  readonly cluster: string | null;
  /** The serial to compare with; null without receipts. */
  readonly serial: number | null;
  /** The digest of the release; null without receipts. */
  readonly digest: string | null;
  /** When the newest receipt was written, by the clock of its node; null without receipts. Of later times nothing is known. */
  readonly newest: string | null;
  readonly waves: readonly { readonly name: string; readonly nodes: number; readonly isOpen: boolean }[];
  readonly counts: Readonly<Record<NodeRolloutState, number>>;
  /** The number of nodes by who serves them, in the words of `servingWords`; sorted. */
  readonly serving: Readonly<Record<string, number>>;
  /** The worst first, then by name. */
  readonly rows: readonly FleetRow[];
  /** Nodes with receipts that are not in `allowed_receipts`: ignored, but possibly forgotten there. */
  readonly foreignNodes: readonly string[];
}

/**
 * Decides what state each node of a fleet is in: compares the receipts of nodes with a release.
 * @param evidence node → its receipts, for every node in `allowed_receipts`
 * @param target default: the newest release in the receipts
 * @param observed node → the modes of what it ran when it was compared with a bundle
 */
export function judgeFleet(
  evidence: ReadonlyMap<string, Evidence>,
  foreignNodes: readonly string[],
  target: RolloutTarget | undefined = newest(evidence),
  observed: ReadonlyMap<string, readonly string[]> = new Map(),
): FleetStatus {
  const nodes = [...new Set([...evidence.keys(), ...(target?.nodes ?? [])])];
  const waveOf = new Map((target?.waves ?? []).flatMap((wave, index) => wave.nodes.map((node) => [node, index])));
  const rows = nodes.map((node) => ({
    ...rowOf(node, evidence.get(node), target, waveOf.get(node)),
    observed: observed.get(node) ?? null,
  }));
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
    newest:
      rows
        .flatMap(({ receipt }) => receipt?.at ?? [])
        .toSorted(compareText)
        .at(-1) ?? null,
    waves,
    counts: counts as Record<NodeRolloutState, number>,
    serving: countServing(rows),
    rows: rows.toSorted((a, b) => rank(a) - rank(b) || compareText(a.node, b.node)),
    foreignNodes: foreignNodes.toSorted(compareText),
  };
}

/**
 * Who serves a node by its receipt: a mode of Sluice, also in front of a kube-proxy that still runs; or kube-proxy. Without a receipt, the
 * modes that were observed.
 */
export function servingWords({ receipt, observed }: Pick<FleetRow, 'receipt' | 'observed'>): string {
  const serving = receipt?.serving;
  if (!serving) return receipt === null && observed !== null ? `observed: ${observed.join(' and ')}` : 'not known';
  const { mode, kubeProxy } = serving;
  if (mode === null) return kubeProxy === 'runs' ? 'kube-proxy' : 'no rules of Sluice';
  return kubeProxy === 'runs' ? `${mode}, kube-proxy runs` : mode;
}

function countServing(rows: readonly FleetRow[]): Readonly<Record<string, number>> {
  const groups = Map.groupBy(rows, servingWords);
  return Object.fromEntries(
    [...groups].map(([words, { length }]) => [words, length] as const).toSorted(([a], [b]) => compareText(a, b)),
  );
}

const rank = ({ state }: FleetRow): number => nodeStates.indexOf(state);

/** True when all nodes run the release or wait for their wave. */
export function isHealthyFleet({ counts, rows }: FleetStatus): boolean {
  return rows.length > 0 && counts.runs + counts.waits === rows.length;
}

/**
 * The newest release in the receipts. Of two with the same serial it takes one that a node runs, because a refused endpoint update must not
 * count against other nodes, and then the first by digest, to be deterministic.
 */
function newest(evidence: ReadonlyMap<string, Evidence>): RolloutTarget | undefined {
  const spoken = [...evidence.values()].flatMap(({ receipt }) =>
    receipt?.release ? [{ ...receipt.release, runs: reportsSuccess(receipt) }] : [],
  );
  const [first] = spoken.toSorted(
    (a, b) => b.serial - a.serial || Number(b.runs) - Number(a.runs) || compareText(a.digest, b.digest),
  );
  return first && { ...first, nodes: [...evidence.keys()], waves: [], open: 0 };
}

const reportsSuccess = ({ outcome }: Receipt): boolean => outcome === 'confirmed' || outcome === 'same';

/** @param index of the node's wave; undefined without a wave */
function rowOf(
  node: string,
  { receipt, file, passedOver }: Evidence = nothing,
  target: RolloutTarget | undefined,
  index: number | undefined,
): Omit<FleetRow, 'observed'> {
  const isClosed = index !== undefined && index >= (target?.open ?? 0);
  const wave = index === undefined ? null : index + 1;
  if (receipt === undefined) {
    const why = passedOver.length === 0 ? 'no receipt' : `no valid receipt: ${passedOver.join('; ')}`;
    return { node, wave, receipt: null, file: null, state: 'silent', why };
  }
  const { state, why } = stateOf(receipt, target, isClosed);
  const note = passedOver.length === 0 ? '' : `newer receipts are ignored: ${passedOver.join('; ')}`;
  const both = [why, note].filter((part) => part !== null && part !== '').join('; ');
  return { node, wave, receipt, file: file ?? null, state, why: both === '' ? null : both };
}

const nothing: Evidence = { receipt: undefined, file: undefined, passedOver: [] };

function stateOf(
  receipt: Receipt,
  target: RolloutTarget | undefined,
  isClosed: boolean,
): { readonly state: NodeRolloutState; readonly why: string | null } {
  const { outcome, release, because } = receipt;
  const why = because ?? outcome;
  if (outcome === 'held') return { state: 'held', why };
  if (outcome === 'chosen' || outcome === 'removed') return { state: 'by-hand', why };
  const isAbout = release !== null && release.digest === target?.digest;
  if (isAbout || release === null) {
    if (isFailure(outcome)) return { state: outcome, why };
    if (isAbout) return { state: 'runs', why: failingIn(receipt) };
  }
  if (isFailure(outcome) && isOfSerial(receipt, target))
    return { state: outcome, why: `other content of serial ${target?.serial}, such as an endpoint update: ${why}` };
  if (isClosed && reportsSuccess(receipt)) return { state: 'waits', why: null };
  return { state: 'behind', why: otherReleaseReason(receipt, target) };
}

/** Whether a receipt says that its release is not, or not whole, in the kernel of a node that goes on with other rules. */
const isFailure = (outcome: Receipt['outcome']): outcome is 'refused' | 'rolled-back' | 'partial' =>
  outcome === 'refused' || outcome === 'rolled-back' || outcome === 'partial';

/** The probes of a node that runs the release that failed before it, and still fail. */
export const failingProbes = ({ state, receipt }: Pick<FleetRow, 'state' | 'receipt'>): readonly string[] =>
  state === 'runs' ? (receipt?.probes ?? []).filter(({ healthy }) => !healthy).map(({ name }) => name) : [];

function failingIn(receipt: Receipt): string | null {
  const failing = failingProbes({ state: 'runs', receipt });
  return failing.length === 0 ? null : `with failing probes: ${failing.join(', ')}`;
}

/** Whether a receipt is about other content of the same serial, such as an endpoint update, whose failure counts as well. */
function isOfSerial({ release }: Receipt, target: RolloutTarget | undefined): boolean {
  return release !== null && release.cluster === target?.cluster && release.serial === target.serial;
}

function otherReleaseReason({ release, outcome }: Receipt, target: RolloutTarget | undefined): string {
  if (release === null) return 'it runs a bundle that is not a release';
  const serial =
    release.serial === target?.serial ? `another release with serial ${release.serial}` : `release ${release.serial}`;
  return `its receipt is about ${serial}: ${outcome}`;
}
