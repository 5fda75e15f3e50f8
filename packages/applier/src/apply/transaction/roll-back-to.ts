import { flowChange, pendingFlows } from '../plan/flows.ts';
import { forgetAfter } from './forgetting.ts';
import { messageOf } from '../../message.ts';
import { isOfSurroundings } from '../../ports/failure.ts';
import type { Generation } from '../../ports/journal.ts';
import { orReport } from '../report-failure.ts';
import type { Ports } from '../../ports/ports.ts';
import { restore, withDropped, withSysctls } from './restore.ts';
import { type NodeState, familyNames } from '../../ports/node-state.ts';
import { switchOff, rollbackState } from './roll-back.ts';
import { foreignSysctls } from './decide-change.ts';
import { endpointChanges, type EndpointChange, decline } from '../endpoints/endpoint-changes.ts';
import { endpointsText } from '../endpoints/bounds.ts';
import { ownedNow } from './clean-up.ts';
import type { TransactionResult } from './planned-change.ts';
import { frontendsOf } from '../order/frontends.ts';
import { settledPlacement } from '@sluice/netfilter';
import type { OtherPlanes } from '../plan/other-planes.ts';
import { plan } from '../plan/plan.ts';
import { overlayEndpoints } from '../endpoints/overlay-endpoints.ts';

/**
 * Rolls back to a generation on request of the operator. The version that is left is quarantined, so that the daemon does not apply it
 * again by itself; a halted node is no longer halted.
 * @throws StateError if the journal cannot be written and it is the last resort; the kernel holds the target then
 */
export async function rollBackTo(
  target: Generation,
  { isLastResort = false, stored = target, declines = false }: RollBackOptions,
  ports: Ports,
): Promise<TransactionResult> {
  const { journal, kernel } = ports;
  const { active } = journal;
  const before = active ? withDropped(target.state, active.state, journal.originals) : target.state;
  const old = rollbackState(before, ports);
  const writeIntent = (to: Generation): Promise<void> => beginRollback(to, active as Generation, old, ports);
  // A disk that takes no write does not prevent the rollback: the outcome says so (`unwritten`).
  if (active && !isLastResort) await orReport('not-announced', ports, () => writeFirst([target, stored], writeIntent));
  let kernelState: TransactionResult['kernelState'];
  try {
    await switchOff(ports);
    kernelState = await restore(old, await ownedNow(ports), ports);
    await kernel.switch?.remove();
  } catch (error) {
    const because = `generation ${target.number} cannot be loaded`;
    const kind = isOfSurroundings(error) ? 'pending' : 'held';
    return { outcome: { kind, because, rollback: messageOf(error) } };
  }
  if (active && declines) await decline(declinedBy(target.state, active.state, ports), ports);
  if (active) await forgetAfter([...flowChange(active.state, old).old, ...pendingFlows(old, active.state)], ports);
  const outcome = { kind: 'confirmed', generation: target, steps: 0 } as const;
  let because: string;
  try {
    const written = await writeFirst([target, stored], (one) => journal.choose(one));
    if (written.revision === target.revision) return { outcome, kernelState };
    because = 'the disk has no room for the newest endpoints; the journal has the original ones of the generation';
  } catch (error) {
    if (isLastResort) throw error;
    because = messageOf(error);
  }
  // In memory: the daemon would otherwise repair the kernel back to the generation on the disk.
  await orReport('not-chosen', ports, () => journal.chooseUnwritten(target, stored));
  return { outcome: { ...outcome, unwritten: because }, kernelState };
}

/** How to roll back on request of the operator. */
export interface RollBackOptions {
  /** The active generation cannot be loaded: after a crash the next process must not return to it. */
  readonly isLastResort?: boolean;
  /** The target as the store has it, perhaps with other endpoints: the fallback for a disk without room. */
  readonly stored?: Generation;
  /** Endpoints that are rolled back are declined: they return with the next release, not by early endpoint sync. */
  readonly declines?: boolean;
}

function declinedBy(old: NodeState, left: NodeState, { declined }: Ports): ReadonlyMap<string, string> {
  const changes = endpointChanges(old, left).filter(({ after }) => after.length > 0);
  return new Map([...declined.read(), ...changes.map(({ key, after }) => [key, endpointsText(after)] as const)]);
}

/** Writes the first of the targets that the disk has room for. @throws the error of the last one */
async function writeFirst<T>(targets: readonly Generation[], write: (target: Generation) => Promise<T>): Promise<T> {
  const [first, ...others] = targets;
  try {
    return await write(first as Generation);
  } catch (error) {
    if (others.every((other) => other === first)) throw error;
    return writeFirst(others, write);
  }
}

/** Opens a transaction in the journal, so that after a crash the next process knows the chains of both generations. */
async function beginRollback(
  { version, state, partial }: Generation,
  active: Generation,
  old: NodeState,
  ports: Ports,
): Promise<void> {
  const { journal } = ports;
  if (journal.open || journal.halted !== undefined) return;
  const now = await withSysctls({ families: {}, sysctls: new Map() }, old, ports);
  const sysctls = foreignSysctls(active.state, old, now);
  const flows = flowChange(active.state, old);
  await journal.begin({ changeKind: 'release', flip: 'ordered', version, state, partial, sysctls, flows });
}

/** A rollback on request of the operator, decided before anything is touched. */
export interface RollbackToPlan {
  /** The generation, with the endpoints that it will have. */
  readonly target: Generation;
  /** Services that are restored and removed; undefined if the active generation cannot be read. */
  readonly services: { readonly come: readonly string[]; readonly go: readonly string[] } | undefined;
  /** The newest endpoints are kept where possible. */
  readonly keepsNewest: boolean;
  /** Services of both generations whose endpoints become the old ones, which may no longer exist. */
  readonly changes: readonly EndpointChange[];
  /** The number of changed lines of rules. */
  readonly lines: number;
}

/**
 * Plans a rollback to an earlier generation. Its endpoints may no longer exist, so every Service of both generations keeps its present
 * ones; a restored Service has its old ones.
 * @param active undefined if it cannot be read
 * @param keepsNewest false: restore the old endpoints, too
 */
export function planRollbackTo(active: Generation | undefined, old: Generation, keepsNewest: boolean): RollbackToPlan {
  if (!active) return { target: old, services: undefined, keepsNewest: false, changes: [], lines: 0 };
  // Generation 0, the rules before Sluice, is never changed.
  const isKept = keepsNewest && old.number > 0;
  const state = isKept ? overlayEndpoints(old.state, active.state, { inKernel: true }) : old.state;
  // With other endpoints it is another revision of its generation.
  const target = state === old.state ? old : { ...old, revision: old.revision + 1, state };
  const { steps } = plan(active.state, state, { slowWithManyChains: false }, otherPlanesOf(active.state));
  const services = servicesBetween(active.state, state);
  const named = new Set([...services.come, ...services.go]);
  const texts = steps.flatMap((step) => ('text' in step ? [step.text] : []));
  return {
    target,
    services,
    keepsNewest: isKept,
    changes: endpointChanges(active.state, state).filter(({ service }) => !named.has(service)),
    lines: texts.reduce((sum, text) => sum + text.trimEnd().split('\n').length, 0),
  };
}

/** What is beside the tables of a kernel that holds a state; virtual servers are not counted. */
function otherPlanesOf({ nft }: NodeState): OtherPlanes {
  const held = nft && settledPlacement(nft, new Map());
  return { nft: { mend: [], held, exists: held !== undefined } };
}

function servicesBetween(from: NodeState, to: NodeState): NonNullable<RollbackToPlan['services']> {
  const [had, has] = [servicesOf(from), servicesOf(to)];
  return { come: [...has].filter((name) => !had.has(name)), go: [...had].filter((name) => !has.has(name)) };
}

const servicesOf = (state: NodeState): ReadonlySet<string> =>
  new Set(familyNames.flatMap((family) => frontendsOf(state, family, true).map(({ service }) => service)));
