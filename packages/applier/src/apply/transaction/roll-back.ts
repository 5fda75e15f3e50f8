import { addAll, type Family } from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import { pendingFlows } from '../plan/flows.ts';
import { forgetAfter } from './forgetting.ts';
import { messageOf } from '../../message.ts';
import { isOfSurroundings } from '../../ports/failure.ts';
import { nodePlaneOf } from '../planes/planes.ts';
import type { Outcome } from '../../ports/outcome.ts';
import type { Fault, Generation } from '../../ports/journal.ts';
import type { TrackedFlow } from '../../ports/kernel.ts';
import { orReport } from '../report-failure.ts';
import type { Ports } from '../../ports/ports.ts';
import { restore } from './restore.ts';
import {
  type OwnedNames,
  chainNames,
  familiesOf,
  familyNames,
  joinNames,
  type NodeState,
} from '../../ports/node-state.ts';
import { baseChainNames, leakedChains } from '../plan/side-by-side.ts';
import type { TransactionResult } from './planned-change.ts';

/**
 * Returns the kernel to the previous generation and closes the transaction. Idempotent, and correct from wherever the change stopped: it
 * plans from the observed state. Where it fails `limits.rollbackAttemptsMax` times: see `unended`.
 *
 * The switch goes off first: that needs no table lock, and from then on packets meet the old program. nat before filter, because
 * packets that nat sent to the new program must still pass its filter.
 * @param from the generation to return to
 * @param fault whether the bundle is to blame: its version is quarantined then
 */
export async function rollBack(
  because: string,
  from: Generation,
  fault: Fault,
  ports: Ports,
): Promise<TransactionResult> {
  if (!isWaiting(ports.journal)) ports.report('rolling-back', { because });
  const isBySwitch = ports.journal.open?.flip === 'switch';
  const newest = waitingFor(ports.journal)?.newest;
  const to = async ({ generation, flows }: Newest): Promise<NodeState> => {
    // Before anything is read: packets come first.
    if (isBySwitch) await ports.kernel.switch?.off('nat');
    const newFlows = [...(await flowsOfRelease(generation, ports)), ...flows];
    await switchOff(ports);
    // Only after packets meet the old program: a flow forgotten earlier would come back as it was.
    if (isBySwitch) await forgetAfter(newFlows, ports);
    const state = await restore(rollbackState(generation.state, ports), await ownedNames(from, ports), ports);
    if (!isBySwitch) await forgetAfter(newFlows, ports);
    await ports.kernel.switch?.remove();
    await abandon(because, fault, generation !== from, ports);
    return state;
  };
  const plain: Newest = { generation: from, flows: [] };
  const once = (): Promise<NodeState> => to(newest ?? plain);
  let tried = await attempt(once, 'rollback-failed', limits.rollbackAttemptsMax, ports);
  if (tried.kind === 'failed' && !isOfSurroundings(tried.error)) {
    const { open } = ports.journal;
    const release = open && (await ports.journal.generation(open.to.number, open.to.revision));
    const offered = { newest, plain, other: release };
    const isToBlame = await holdByFamily(offered, ports);
    if (isToBlame) awaits(undefined, ports.journal);
    if (newest && isToBlame !== false) tried = await attempt(() => to(plain), 'rollback-failed', 1, ports);
    // It was not for the endpoints.
    if (tried.kind === 'failed' && isToBlame === undefined) await holdByFamily(offered, ports);
  }
  if (tried.kind === 'failed')
    return { outcome: await unended({ because, fault }, 'the rollback failed', tried.error, ports) };
  ended(ports.journal);
  const again = fault === 'surroundings' ? ({ again: true } as const) : {};
  return { outcome: { kind: 'rolled-back', because, ...again }, kernelState: tried.result };
}

/**
 * The kernel refuses the end of a change, or a repair, as a whole: puts the confirmed generation in where it takes that, each family by itself, and leaves
 * what the other one has left behind. So endpoints and repairs go on: the retry comes here at each scan, as often as it is refused. Nothing
 * is done where the other one has another plane or layout, or is not known: both programs would mix.
 * @returns whether newer endpoints are why: they must not keep a rollback out, and a rollback without them is not to be tried without need, for
 *   endpoints would change twice at each scan; undefined: not known, as where a family needs no change without them
 */
export async function holdByFamily({ newest, plain, other }: Offered, ports: Ports): Promise<boolean | undefined> {
  const from = plain.generation;
  if (from.number === 0 || !other) return undefined;
  const plane = nodePlaneOf(from.state);
  if (plane.name !== nodePlaneOf(other.state).name) return undefined;
  const own = await ownNames(from, ports.journal);
  // The one table of mode nftables has both families, also where no tool for the tables of one is installed.
  const families = plane.hasOwnTable ? familyNames : familiesOf(from.state);
  let isToBlame: boolean | undefined = false;
  for (const part of plane.hasServers ? (['all'] as const) : families) {
    const holds = async ({ generation, flows }: Newest): Promise<'changed' | 'same' | 'refused'> => {
      let steps = 0;
      const report: Ports['report'] = (event, details) => {
        if (event === 'step') steps += 1;
        ports.report(event, details);
      };
      try {
        const owned = part === 'all' ? own : { [part]: own[part] };
        await restore(partOf(generation.state, part), owned, { ...ports, report }, part);
        await forgetAfter(flows, ports);
        return steps > 0 ? 'changed' : 'same';
      } catch (error) {
        ports.report('part-refused', { family: part, because: messageOf(error) });
        return 'refused';
      }
    };
    if (newest && (await holds(newest)) !== 'refused') continue;
    const without = await holds(plain);
    if (without === 'changed') isToBlame = true;
    else if (without === 'same') isToBlame ||= undefined;
  }
  return isToBlame;
}

/** The rules of one family, or of all; sysctls are left to the whole rollback. */
function partOf(state: NodeState, part: Family | 'all'): NodeState {
  const { families: all } = state;
  const families = part === 'all' ? all : all[part] ? { [part]: all[part] } : {};
  return { ...state, families, sysctls: new Map() };
}

/** The names of the chains of a generation, and of what is offered in its place. */
async function ownNames(from: Generation, journal: Ports['journal']): Promise<OwnedNames> {
  const { open } = journal;
  const newest = open?.update && (await journal.generation(open.update.from.number, open.update.from.revision));
  return newest ? joinNames(chainNames(from.state), chainNames(newest.state)) : chainNames(from.state);
}

/**
 * The flows that only the program in probation has. Those of TCP are not in the journal: there is one per frontend and endpoint, and
 * only a rollback needs them.
 */
async function flowsOfRelease(from: Generation, { journal }: Pick<Ports, 'journal'>): Promise<readonly TrackedFlow[]> {
  const { open } = journal;
  const pending: TrackedFlow[] = [];
  for (const id of open ? [open.to, ...(open.update ? [open.update.to] : [])] : []) {
    const tried = await journal.generation(id.number, id.revision);
    if (tried) addAll(pending, pendingFlows(from.state, tried.state));
  }
  return [...(await journal.openFlows()).fresh, ...pending];
}

/** On a full or read-only disk the transaction stays open: the old rules are in the kernel, and the next recovery repeats the rollback. */
function abandon(because: string, fault: Fault, hasNewest: boolean, ports: Ports): Promise<void> {
  return orReport('abandon-not-written', ports, async () => {
    if (hasNewest) await ports.journal.accept();
    await ports.journal.abandon(because, fault);
  });
}

/** Sends packets to the old program: nat at once, filter when packets in flight have passed. Does nothing without sets. */
export async function switchOff({ kernel, clock }: Pick<Ports, 'kernel' | 'clock'>): Promise<void> {
  if ((await kernel.switch?.look()) === undefined) return;
  await kernel.switch?.off('nat');
  await clock.sleep(limits.narrowPauseMs);
  await kernel.switch?.off('filter');
}

/**
 * The names of all chains that are ours: those of `from`, and those that the open transaction may have made. If one of its generations
 * cannot be read any more, its chains are found by the names in the kernel (`leakedChains`).
 */
export async function ownedNames(
  from: Generation,
  { journal, kernel }: Pick<Ports, 'journal' | 'kernel'>,
): Promise<OwnedNames> {
  const { open } = journal;
  let own = chainNames(from.state);
  let isKnown = true;
  const ids = open ? [open.from, open.to, ...(open.update ? [open.update.from, open.update.to] : [])] : [];
  for (const id of ids) {
    if (id.number === from.number && id.revision === from.revision) continue;
    const made = await journal.generation(id.number, id.revision);
    // Of each base chain: what is replaced may have been a kube-proxy's, which `from` does not name.
    if (made) own = joinNames(joinNames(own, chainNames(made.state)), baseChainNames(made.state, made.state));
    else isKnown = false;
  }
  return isKnown ? own : joinNames(own, leakedChains(await kernel.observe(familiesOf(from.state)), from.state));
}

/** The state to roll back to: that of the generation, and the old values of the sysctls that only the open transaction set. */
export function rollbackState(state: NodeState, { journal }: Pick<Ports, 'journal'>): NodeState {
  return { ...state, sysctls: new Map([...(journal.open?.sysctls ?? []), ...state.sysctls]) };
}

/** The result of work, or the error of its last attempt. */
type Attempted<T> =
  | { readonly kind: 'done'; readonly result: T }
  | { readonly kind: 'failed'; readonly error: unknown };

/**
 * Tries work that has to succeed, with growing pauses, up to a number of times and no longer than `limits.attemptsMsMax`: a tool that hangs
 * must not keep the main loop from its other work. A node that is halted, or whose rollback waits, is tried once: the loop comes again.
 * @param failed the event that is reported for each failed attempt
 */
export async function attempt<T>(
  work: () => Promise<T>,
  failed: string,
  attemptsMax: number,
  { clock, report, journal }: Pick<Ports, 'clock' | 'report' | 'journal'>,
): Promise<Attempted<T>> {
  const most = isWaiting(journal) ? 1 : attemptsMax;
  const startMs = clock.bootMs();
  for (let attempts = 1; ; attempts++) {
    let error: unknown;
    try {
      return { kind: 'done', result: await work() };
    } catch (thrown) {
      error = thrown;
    }
    report(failed, { attempt: attempts, because: messageOf(error) });
    if (attempts >= most || clock.bootMs() - startMs > limits.attemptsMsMax) return { kind: 'failed', error };
    await clock.sleep(limits.rollbackIntervalMs * attempts);
  }
}

/** Why a transaction is to be rolled back, as long as that could not be done. */
interface Waiting {
  readonly because: string;
  readonly fault: Fault;
  readonly newest?: Newest | undefined;
}

/** What an end of a change leads to. */
interface Offered {
  readonly newest: Newest | undefined;
  readonly plain: Newest;
  /** The other generation of the change. */
  readonly other: Generation | undefined;
}

/** A generation to return to. */
interface Newest {
  readonly generation: Generation;
  /** Flows to endpoints that it does not have any more. */
  readonly flows: readonly TrackedFlow[];
}

/** Known to this process alone: the next one knows that the transaction is open, and rolls it back for that. */
const waitingOf = new WeakMap<Ports['journal'], Waiting>();

/** Whether the end of the open transaction was tried before. */
const isWaiting = (journal: Ports['journal']): boolean => journal.halted !== undefined || waitingOf.has(journal);

export const waitingFor = (journal: Ports['journal']): Waiting | undefined => waitingOf.get(journal);

/** The journal was offered the generation to return to with newer endpoints: each further attempt has these. undefined: not any more. */
export function awaits(newest: Newest | undefined, journal: Ports['journal']): void {
  const waiting = waitingOf.get(journal);
  if (waiting) waitingOf.set(journal, { ...waiting, newest });
}

/** The open transaction came to an end. */
export const ended = (journal: Ports['journal']): void => void waitingOf.delete(journal);

/**
 * What becomes of a transaction whose end failed. Where the surroundings failed, the end could not be tried: it is tried again until it can,
 * at every scan, by this process or the next one. Where the kernel answered and refused, the node is halted; also then it is tried again,
 * now and then, because what the kernel refuses may depend on what others load into it.
 * @param what the end that failed, for the history: `the rollback failed`
 */
export async function unended(
  { because, fault }: Waiting,
  what: string,
  error: unknown,
  { journal, report }: Pick<Ports, 'journal' | 'report'>,
): Promise<Outcome> {
  waitingOf.set(journal, { ...waitingOf.get(journal), because, fault });
  const rollback = messageOf(error);
  await outlived(journal);
  if (isOfSurroundings(error)) return { kind: 'pending', because, rollback };
  await halt(`${because}; ${what}: ${rollback}`, { journal, report });
  return { kind: 'held', because, rollback };
}

/** This process did not crash in its attempt. A disk that takes no write changes nothing about that. */
export async function outlived(journal: Ports['journal']): Promise<void> {
  try {
    await journal.outlived();
  } catch {
    // Five processes that crash are needed before the count matters.
  }
}

/** Halts the node. If the disk takes no write, the halt lasts only as long as this process. */
export async function halt(because: string, { journal, report }: Pick<Ports, 'journal' | 'report'>): Promise<void> {
  // Its first reason stays.
  if (journal.halted === undefined) await orReport('hold-not-written', { report }, () => journal.halt(because));
}
