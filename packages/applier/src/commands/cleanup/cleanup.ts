import { stateError } from '../../command-error.ts';
import { mustBeKnown, mustBeReadable } from '../../control/roll-back.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { failedReceipt, receiptWriterOf } from '../session/receipts.ts';
import { openSession, type NodeSession } from '../session/session.ts';
import { answer, type CommonOptions, loadConfig, type Terminal } from '../terminal/terminal.ts';

/** `sluiced cleanup`: removes all rules of Sluice from the kernel and restores the sysctls. */
export async function cleanup(options: CommonOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  const session = await openSession(config, 'back', () => undefined);
  try {
    await mustBeKnown(session);
    mustNotBeAdopted(session);
    mustBeReadable(session);
    const steps = await session.reconciler.cleanup();
    const receiptWriter = receiptWriterOf(config, () => session.journal, failedReceipt(terminal));
    await receiptWriter.report({ outcome: 'removed', because: 'an operator ran `sluiced cleanup`' }, undefined);
    answer(options, terminal, {
      kind: 'Cleanup',
      fields: { node: config.node, steps },
      text:
        steps === 0
          ? 'nothing to remove: the kernel has no rules of Sluice\n'
          : `removed all rules of Sluice from the kernel (${steps} steps)\n`,
    });
    return exitCodes.done;
  } finally {
    session.close();
  }
}

/**
 * kube-proxy is kept from returning: without Sluice's rules the node would have none.
 * @throws CommandError
 */
function mustNotBeAdopted({ journal }: NodeSession): void {
  if (!journal.adoption) return;
  const message = 'Cannot clean up: this node was moved from kube-proxy, which is kept from returning';
  throw stateError(message, 'Run `sluiced adopt --undo`: kube-proxy returns, then the rules of Sluice are removed');
}
