import { CommandError, stateError } from '../../command-error.ts';
import { exitCodes } from '../../ports/outcome.ts';
import type { DiskJournal } from '../../state/journal.ts';
import type { HistoryEntry } from '../../state/record.ts';
import type { Generation } from '../../ports/journal.ts';
import type { Reconciler } from '../../apply/reconcile/reconciler.ts';
import { planRollbackTo } from '../../apply/transaction/roll-back-to.ts';
import type { ProbationStatus, RollbackEnding, RollbackOrder, RollbackPlan, RollbackRequest } from './protocol.ts';

/** The parts of a session that a rollback uses, in the daemon and in a command. */
export interface Rollback {
  readonly journal: DiskJournal;
  readonly reconciler: Pick<Reconciler, 'recover' | 'refuseRollback' | 'rollBackTo'>;
}

/**
 * Plans a rollback; changes nothing.
 * @param cancels the release on probation, which the rollback cancels first
 * @throws CommandError where there is no such generation, or it would remove all Services without permission
 */
export async function planRollback(
  request: RollbackRequest,
  { journal }: Pick<Rollback, 'journal'>,
  cancels: Pick<ProbationStatus, 'version' | 'token'> | null,
): Promise<RollbackPlan> {
  const old = await targetOf(request, journal);
  const {
    services = null,
    keepsNewest,
    changes,
    lines,
  } = planRollbackTo(journal.active, old, request.endpoints === 'newest');
  return {
    from: journal.active?.number ?? null,
    to: {
      generation: old.number,
      version: old.version,
      confirmedAt: confirmedAt(journal, old),
      serial: journal.notes.serialOf(old.number) ?? null,
    },
    cancels: cancels && { version: cancels.version, token: cancels.token },
    endpoints: keepsNewest ? 'newest' : 'old',
    services: services && { removed: services.go, restored: services.come },
    stale: changes,
    lines,
  };
}

/**
 * Carries out an agreed rollback. The version that it replaces is quarantined; with old endpoints, the newest ones are not synced early
 * either.
 * @throws CommandError where another generation is active, or meant, than when the plan was made; or it takes over without a certificate
 */
export async function rollBack(order: RollbackOrder, { journal, reconciler }: Rollback): Promise<RollbackEnding> {
  const active = journal.active?.number ?? null;
  if (active !== order.from)
    throw disagreed(`generation ${active ?? 'none'} is active now, not ${order.from ?? 'none'}`);
  const old = await targetOf(order, journal);
  if (old.number !== order.generation)
    throw disagreed(`${order.to} is generation ${old.number} now, not ${order.generation}`);
  const { target } = planRollbackTo(journal.active, old, order.endpoints === 'newest');
  const refusal = await reconciler.refuseRollback(target);
  if (refusal) throw new CommandError(refusal.problems, exitCodes.refused);
  const outcome = await reconciler.rollBackTo(target, { stored: old, declines: order.endpoints === 'old' });
  if (outcome.kind === 'held' || outcome.kind === 'pending') return outcome;
  return { kind: 'done', unwritten: (outcome.kind === 'confirmed' && outcome.unwritten) || null };
}

const disagreed = (why: string) =>
  stateError(`Cannot roll back as agreed: ${why}`, 'Run `sluiced rollback` again and check the new plan');

/**
 * Finds the active generation of a lost journal, as the daemon does at its start.
 * @throws CommandError where that is not possible: then Sluice's rules cannot be told from foreign ones
 */
export async function mustBeKnown({ journal, reconciler }: Rollback): Promise<void> {
  if (journal.lost !== undefined) await reconciler.recover();
  const { lost } = journal;
  if (lost !== undefined) throw unknown(lost);
}

/**
 * Only a generation knows which rules it made.
 * @throws CommandError when the active one cannot be read
 */
export function mustBeReadable({ journal }: Pick<Rollback, 'journal'>): void {
  const { current } = journal.record;
  if (current === null || journal.active) return;
  const message = `Cannot clean up: generation ${current.number} cannot be read, so its rules are not known`;
  throw stateError(message, 'Run `sluiced rollback` to make another generation active, then clean up');
}

const unknown = (lost: string) =>
  stateError(
    `Cannot continue: ${lost}`,
    'See /usr/share/doc/sluice/runbooks/halted.md to find the owner of each rule by hand',
  );

async function targetOf(
  { to, removeAllServices }: Pick<RollbackRequest, 'to' | 'removeAllServices'>,
  journal: DiskJournal,
): Promise<Generation> {
  if (journal.lost !== undefined) throw unknown(journal.lost);
  // Generation 0, which the first apply stores, has the rules and sysctls from before Sluice.
  if (journal.record.current === null)
    throw stateError('Cannot roll back: no generation of Sluice is active', 'Apply a bundle first');
  const target = await find(to, journal);
  if (target?.number === 0 && !removeAllServices) throw removesAll();
  if (target?.number === 0 && journal.adoption) throw adopted();
  if (target) return target;
  const message =
    to === undefined
      ? 'Cannot roll back: the only earlier generation is 0, without the rules of Sluice'
      : `Cannot roll back to ${to}: this node has no such generation`;
  const hint =
    'Run `sluiced history` for generations and `sluiced checkpoint` for checkpoints; `sluiced rollback 0 --remove-all-services` removes the rules of Sluice';
  throw stateError(message, hint);
}

async function find(to: string | undefined, journal: DiskJournal): Promise<Generation | undefined> {
  const checkpoint = journal.notes.checkpoints.find(({ name }) => name === to);
  if (checkpoint) return journal.checkpointed(checkpoint);
  const number = to === undefined ? defaultTarget(journal) : numberOf(to, journal.record);
  return number === undefined ? undefined : journal.generation(number);
}

function adopted() {
  return stateError(
    'Cannot roll back to generation 0: this node was moved from kube-proxy, which is kept from returning',
    'Run `sluiced adopt --undo`: kube-proxy returns, then the rules of Sluice are removed',
  );
}

function removesAll() {
  return stateError(
    'Cannot roll back to generation 0: that removes the rules of every Service and leaves the rules this node had before Sluice',
    'Choose another generation (`sluiced history`), or pass --remove-all-services',
  );
}

const confirmedAt = ({ record }: DiskJournal, { number }: Generation): string | null =>
  record.history.findLast(({ what, generation }) => what === 'confirmed' && generation === number)?.at ?? null;

/** The shortest prefix of a version; the history prints as much. */
const versionCharactersMin = 8;

/** @param to the number of a generation, a version or a prefix of one */
function numberOf(to: string, { kept, current }: DiskJournal['record']): number | undefined {
  const all = [...kept, ...(current ? [current] : [])];
  const exact = all.find(({ version }) => version === to);
  if (exact) return exact.number;
  if (/^\d+$/.test(to) && to.length < versionCharactersMin) return Number(to);
  if (to.length < versionCharactersMin) return undefined;
  const begun = new Set(all.filter(({ version }) => version.startsWith(to)).map(({ number }) => number));
  return begun.size === 1 ? [...begun][0] : undefined;
}

/**
 * The previous generation; where it is not kept or is quarantined, the newest earlier one that is not. While a release is open, the
 * generation before it.
 */
function defaultTarget({ record, active }: DiskJournal): number | undefined {
  // An endpoint update does not change the number of the active generation.
  if (record.open?.lane === 'release' || (record.open && record.held !== null)) return record.open.from.number;
  if (record.held !== null && record.current !== null && active) return record.current.number;
  const activeNumber = record.current?.number ?? 0;
  const good = record.kept.filter(
    ({ number, version }) => number > 0 && number < activeNumber && !Object.hasOwn(record.quarantined, version),
  );
  const before = record.history.findLast(({ what, generation }) => isActive(what) && generation !== activeNumber);
  return (good.find(({ number }) => number === before?.generation) ?? good.at(-1))?.number;
}

/** Whether a generation is active after an entry of the history. */
const isActive = (what: HistoryEntry['what']): boolean =>
  what !== 'rolled-back' && what !== 'held' && what !== 'cleaned-up';
