import { connectToDaemon } from '../../daemon/control/ask.ts';
import type { Control } from '../../daemon/control/protocol.ts';
import { mustBeKnown } from '../../daemon/control/roll-back.ts';
import { makeControl } from '../../daemon/control/serve.ts';
import type { SluicedConfig } from '../../config.ts';
import { holderOf } from './command-control.ts';
import { failedReceipt, makeReceiptWriter } from './receipts.ts';
import { openSession } from './session.ts';
import type { Terminal } from '../terminal/terminal.ts';

/**
 * Runs work with control of the state directory: through the daemon where one runs, else in this process, which holds the lock meanwhile.
 * @throws StateError without permission, or when another process holds the lock and does not answer
 */
export async function withControl<T>(
  config: SluicedConfig,
  terminal: Terminal,
  work: (control: Control) => Promise<T>,
): Promise<T> {
  const running = await connectToDaemon(config.state);
  if (running) return work(running);
  using session = await openSession(config, 'back', () => undefined);
  const receiptWriter = makeReceiptWriter(config, () => session.journal, failedReceipt(terminal));
  const holder = holderOf(session, config, {
    order: (one) => one(),
    ended: (account) => receiptWriter.report(account, undefined),
  });
  await mustBeKnown(holder);
  return await work(makeControl(holder));
}
