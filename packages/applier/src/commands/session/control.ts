import { connectToDaemon } from '../../daemon/control/ask.ts';
import type { Control } from '../../daemon/control/protocol.ts';
import { mustBeKnown } from '../../daemon/control/roll-back.ts';
import { makeControl, type StateHolder } from '../../daemon/control/serve.ts';
import type { SluicedConfig } from '../../config.ts';
import { failedReceipt, makeReceiptWriter } from './receipts.ts';
import { type NodeSession, openSession } from './session.ts';
import type { Terminal } from '../terminal/terminal.ts';
import { stateError } from '../../command-error.ts';
import { ControlSocket } from '../../daemon/control/socket.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { Repairs } from '../../observe/status/repairs.ts';

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

/**
 * The control socket of a command that has a release on probation: `sluiced confirm`, `cancel`, `extend` and `status` reach it there.
 * @param command its name: `apply`
 */
export function commandControl(
  command: string,
  session: NodeSession,
  config: SluicedConfig,
  terminal: Terminal,
): ControlSocket {
  // A rollback has to wait for the end of the command.
  const order = (): never => {
    throw stateError(
      `Cannot roll back now: \`sluiced ${command}\` is in progress`,
      'Wait for its end, or run `sluiced cancel` to roll back the release on probation',
      exitCodes.refused,
    );
  };
  const holder = holderOf(session, config, { order, ended: async () => undefined });
  return new ControlSocket(config.state, makeControl(holder), (why) => {
    if (why !== undefined) terminal.err(`warning: sluiced confirm and sluiced cancel are not available: ${why}\n`);
  });
}

/** What a command answers operators with: it has no status of a daemon. @param own how it takes orders and the results of rollbacks */
const holderOf = (
  session: NodeSession,
  { state }: SluicedConfig,
  own: Pick<StateHolder, 'order' | 'ended'>,
): StateHolder => ({ ...session, repairs: () => new Repairs(state).read(), report: () => null, ...own });
