import { stateError } from '../../command-error.ts';
import { mustBeKnown, mustBeReadable } from '../../daemon/control/roll-back.ts';
import type { Generation } from '../../ports/journal.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { failedReceipt, makeReceiptWriter } from '../session/receipts.ts';
import { openSession, type NodeSession } from '../session/session.ts';
import { answer, type CommonOptions, loadConfig, type Terminal } from '../terminal/terminal.ts';

export interface CleanupOptions extends CommonOptions {
  readonly dryRun?: boolean;
  /** Does not ask. */
  readonly yes?: boolean;
}

/**
 * `sluiced cleanup`: removes all rules of Sluice from the kernel and restores the sysctls. Exit code 1 when the operator declines, or when
 * a dry run found a generation to remove.
 */
export async function cleanup(options: CleanupOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  using session = await openSession(config, 'back', () => undefined);
  await mustBeKnown(session);
  mustNotBeAdopted(session);
  mustBeReadable(session);
  const { active } = session.journal;
  const generation = active?.number ?? null;
  const answered = (steps: number | null, text: string): void =>
    answer(options, terminal, { kind: 'Cleanup', fields: { node: config.node, generation, steps }, text });
  if (options.dryRun) {
    answered(null, plan(active));
    return generation === null ? exitCodes.done : exitCodes.different;
  }
  // Without a terminal it goes on, as always: scripts that remove a node call it.
  if (!options.yes && terminal.ask && options.output !== 'json') {
    terminal.out(plan(active));
    if (!(await terminal.ask('Remove them?'))) {
      terminal.err('nothing was changed\n');
      return exitCodes.different;
    }
  }
  const steps = await session.reconciler.cleanup();
  const receiptWriter = makeReceiptWriter(config, () => session.journal, failedReceipt(terminal));
  await receiptWriter.report({ outcome: 'removed', because: 'an operator ran `sluiced cleanup`' }, undefined);
  answered(
    steps,
    steps === 0
      ? 'nothing to remove: the kernel has no rules of Sluice\n'
      : `removed all rules of Sluice from the kernel (${steps} steps)\n`,
  );
  return exitCodes.done;
}

const plan = (active: Generation | undefined): string =>
  active === undefined
    ? 'No generation of Sluice is active; rules of Sluice that are left in the kernel would be removed\n'
    : `The rules of generation ${active.number} (version ${active.version}) would be removed, and the sysctls restored: this node then serves no Service by Sluice\n`;

/**
 * kube-proxy is kept from returning: without Sluice's rules the node would have none.
 * @throws CommandError
 */
function mustNotBeAdopted({ journal }: NodeSession): void {
  if (!journal.adoption) return;
  const message = 'Cannot clean up: this node was moved from kube-proxy, which is kept from returning';
  throw stateError(message, 'Run `sluiced adopt --undo`: kube-proxy returns, then the rules of Sluice are removed');
}
