import { stateError } from '../command-error.ts';
import { mustBeKnown } from '../control/roll-back.ts';
import { exitCodes } from '../rollout/outcome.ts';
import { failedReceipt, witnessOf } from './receipts.ts';
import { openSession, type Session } from './session.ts';
import { answer, type CommonOptions, loadConfig, type Terminal } from './terminal.ts';

/** `sluiced cleanup`: takes every rule of Sluice out of the kernel; sysctls get their old values back. */
export async function cleanup(options: CommonOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  const session = await openSession(config, 'back', () => undefined);
  try {
    await mustBeKnown(session);
    mustBeReadable(session);
    const steps = await session.reconciler.cleanup();
    const witness = witnessOf(config, () => session.journal, failedReceipt(terminal));
    await witness.tell({ outcome: 'removed', because: 'a person cleaned up' }, undefined);
    answer(options, terminal, {
      kind: 'Cleanup',
      fields: { node: config.node, steps },
      text:
        steps === 0
          ? 'nothing of Sluice was in the kernel\n'
          : `removed everything of Sluice from the kernel (${steps} steps)\n`,
    });
    return exitCodes.done;
  } finally {
    session.close();
  }
}

/**
 * Which rules a generation made is known from the generation alone.
 * @throws CommandError when the one that stands cannot be read
 */
function mustBeReadable({ journal }: Session): void {
  const { current } = journal.record;
  if (current === null || journal.active) return;
  const message = `Cannot clean up: generation ${current.number} cannot be read, so nobody knows which rules are Sluice's`;
  throw stateError(message, 'Put another generation in with `sluiced rollback`, and clean up then');
}
