import { stateError } from '../command-error.ts';
import type { DiskJournal } from '../journal/journal.ts';
import { isCheckpointName, isFull } from '../journal/generation-notes.ts';
import { limits } from '../limits.ts';
import type { Account } from '../receipts/account.ts';
import { accountOf } from '../receipts/account.ts';
import type { RepairAt } from '../repairs.ts';
import type { StatusReport } from '../status.ts';
import type { Decisions } from './decisions.ts';
import type { Control } from './protocol.ts';
import { mustBeKnown, planRollback, type Rollback, rollBack } from './roll-back.ts';

/** The process that holds the lock of a state directory. */
export interface Holder extends Rollback {
  readonly journal: DiskJournal;
  readonly decisions: Decisions;
  readonly repairs: () => readonly RepairAt[];
  /** What the daemon says of itself; null in a command. */
  readonly report: () => StatusReport | null;
  /**
   * Carries work out when no change is in progress.
   * @throws CommandError, at once, where this process does not take orders
   */
  readonly order: <T>(work: () => Promise<T>) => Promise<T>;
  /** Called with how a rollback ended; for receipts. */
  readonly ended: (account: Account) => Promise<void>;
}

const byHand: Account = { outcome: 'chosen', because: 'a person chose the generation' };

/** Answers requests with what this process holds. */
export function controlOf(holder: Holder): Control {
  const { journal, decisions } = holder;
  return {
    status: async () => ({
      report: holder.report(),
      probation: decisions.probation ?? null,
      record: journal.record,
      repairs: holder.repairs(),
    }),
    decide: async (request) => ({ version: decisions.take(request).version }),
    planRollback: async (request) => planRollback(request, holder, decisions.probation ?? null),
    rollBack: async (plan) => {
      const { probation } = decisions;
      // By its token: endpoints that come meanwhile make it another version.
      if ((probation?.token ?? null) !== plan.cancels)
        throw stateError(
          'Cannot roll back as agreed: another release is on probation by now, or none',
          'Run `sluiced rollback` again, and read what it says',
        );
      const done = holder.order(async () => {
        await mustBeKnown(holder);
        decisions.over();
        const ending = await rollBack(plan, holder);
        await holder.ended(ending.kind === 'held' ? accountOf(ending) : byHand);
        return ending;
      });
      // Not before: an order that is refused cancels nothing.
      if (probation) decisions.take({ decision: { kind: 'cancel' } });
      return done;
    },
    checkpoint: async ({ name }) => pin(name, journal),
    removeCheckpoint: async ({ name }) => {
      const found = journal.notes.checkpoints.find((one) => one.name === name);
      if (!found)
        throw stateError(`Cannot remove checkpoint ${name}: there is none`, '`sluiced checkpoint` lists them');
      journal.notes.unpin(name);
      return found;
    },
  };
}

function pin(name: string, journal: DiskJournal) {
  const what = `Cannot make checkpoint ${JSON.stringify(name)}`;
  if (!isCheckpointName(name))
    throw stateError(
      `${what}: the name is not valid`,
      'Up to 63 small letters, digits, dots, dashes and underscores, a letter first, and unlike a version',
    );
  const { checkpoints } = journal.notes;
  if (checkpoints.some((one) => one.name === name))
    throw stateError(`${what}: it exists`, `\`sluiced checkpoint --remove ${name}\` removes it`);
  if (isFull(checkpoints))
    throw stateError(
      `${what}: this node keeps ${limits.checkpointsMax} checkpoints, and no more`,
      '`sluiced checkpoint` lists them; --remove NAME removes one',
    );
  const made = (journal.active?.number ?? 0) > 0 ? journal.checkpoint(name) : undefined;
  if (made) return made;
  throw stateError(`${what}: no generation of Sluice is active`, 'Apply a bundle first');
}
