import { stateError } from '../../command-error.ts';
import type { DiskJournal } from '../../state/journal.ts';
import { isCheckpointName, isFull } from '../../state/generation-notes.ts';
import { limits } from '../../limits.ts';
import { type Account, accountOf } from '../../observe/receipts/account.ts';
import type { DrainState } from '../../ports/drain.ts';
import type { RepairAt } from '../../observe/status/repairs.ts';
import type { StatusReport } from '../../observe/status/status.ts';
import type { Decisions } from './decisions.ts';
import type { Control } from './protocol.ts';
import { mustBeKnown, planRollback, type Rollback, rollBack } from './roll-back.ts';

/** The process that holds the lock of a state directory. */
export interface StateHolder extends Rollback {
  readonly journal: DiskJournal;
  readonly decisions: Decisions;
  readonly repairs: () => readonly RepairAt[];
  /** The daemon's status; null in a command. */
  readonly report: () => StatusReport | null;
  /**
   * Carries out work when no change is in progress.
   * @throws CommandError, at once, where this process takes no orders
   */
  readonly order: <T>(work: () => Promise<T>) => Promise<T>;
  /** Looks at the bundle directory; left out in a command, which has its bundle. */
  readonly look?: (() => void) | undefined;
  /** Left out in a command, which answers no load balancers. */
  readonly drain?: {
    readonly now: DrainState | undefined;
    begin(seconds: number | null, because: DrainState['because']): void;
    end(): void;
  };
  /** Called with the result of a rollback, for receipts. */
  readonly ended: (account: Account) => Promise<void>;
}

const byHand: Account = { outcome: 'chosen', because: 'an operator rolled back to this generation' };

/** Answers requests on behalf of this process. */
export function makeControl(holder: StateHolder): Control {
  const { journal, decisions } = holder;
  return {
    status: async () => ({
      report: holder.report(),
      probation: decisions.probation ?? null,
      record: journal.record,
      repairs: holder.repairs(),
    }),
    look: async () => {
      holder.look?.();
      return {};
    },
    drain: async ({ seconds }) => {
      drainOf(holder).begin(seconds, 'operator');
      const state = drainOf(holder).now;
      // Its receipt is written in the next round.
      holder.look?.();
      if (state) return state;
      throw stateError('Cannot drain the node: its end is already over', 'Check the clock of the node');
    },
    undrain: async () => {
      drainOf(holder).end();
      holder.look?.();
      return {};
    },
    decide: async (request) => {
      const { version, generation } = decisions.take(request);
      return { version, generation };
    },
    planRollback: async (request) => planRollback(request, holder, decisions.probation ?? null),
    rollBack: async (plan) => {
      const { probation } = decisions;
      // By its token: endpoint updates change the version of the release.
      if ((probation?.token ?? null) !== plan.cancels)
        throw stateError(
          'Cannot roll back as agreed: the release on probation has changed',
          'Run `sluiced rollback` again and check the new plan',
        );
      const done = holder.order(async () => {
        await mustBeKnown(holder);
        decisions.over();
        const ending = await rollBack(plan, holder);
        await holder.ended(ending.kind === 'done' ? byHand : accountOf(ending));
        return ending;
      });
      // Not before: a refused order must cancel nothing.
      if (probation) decisions.take({ decision: { kind: 'cancel' } });
      return done;
    },
    checkpoint: async ({ name }) => pin(name, journal),
    removeCheckpoint: async ({ name }) => {
      const found = journal.notes.checkpoints.find((one) => one.name === name);
      if (!found)
        throw stateError(
          `Cannot remove checkpoint ${name}: no such checkpoint`,
          'Run `sluiced checkpoint` to list them',
        );
      journal.notes.unpin(name);
      return found;
    },
    liftQuarantine: async ({ name }) => lift(name, holder),
  };
}

function drainOf({ drain }: StateHolder): NonNullable<StateHolder['drain']> {
  if (drain) return drain;
  const why = '`sluiced apply` is in progress, and no daemon answers load balancers';
  throw stateError(`Cannot do that: ${why}`, 'Wait for its end, then start the daemon: `systemctl start sluiced`');
}

/** Between two changes: a release on probation ends first, since what it leaves quarantined depends on the list. */
async function lift(name: string, { journal, order }: StateHolder): Promise<{ readonly name: string }> {
  if (await order(() => journal.lift(name))) return { name };
  throw stateError(
    `Cannot lift the quarantine of ${name}: it is not quarantined`,
    'Run `sluiced quarantine` for the list',
  );
}

function pin(name: string, journal: DiskJournal) {
  const what = `Cannot make checkpoint ${JSON.stringify(name)}`;
  if (!isCheckpointName(name))
    throw stateError(
      `${what}: the name is not valid`,
      'Use up to 63 lower-case letters, digits, dots, dashes and underscores, starting with a letter; not 8 or more hex digits, which would be a version',
    );
  const { checkpoints } = journal.notes;
  if (checkpoints.some((one) => one.name === name))
    throw stateError(`${what}: it already exists`, `Remove it with \`sluiced checkpoint --remove ${name}\``);
  if (isFull(checkpoints))
    throw stateError(
      `${what}: the limit of ${limits.checkpointsMax} checkpoints is reached`,
      'List them with `sluiced checkpoint`, and remove one with --remove NAME',
    );
  const made = (journal.active?.number ?? 0) > 0 ? journal.checkpoint(name) : undefined;
  if (made) return made;
  throw stateError(`${what}: no generation of Sluice is active`, 'Apply a bundle first');
}
