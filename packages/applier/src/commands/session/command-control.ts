import { stateError } from '../../command-error.ts';
import type { SluicedConfig } from '../../config.ts';
import { makeControl, type StateHolder } from '../../daemon/control/serve.ts';
import { ControlSocket } from '../../daemon/control/socket.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { Repairs } from '../../observe/status/repairs.ts';
import type { Terminal } from '../terminal/terminal.ts';
import type { NodeSession } from './session.ts';

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
export const holderOf = (
  session: NodeSession,
  { state }: SluicedConfig,
  own: Pick<StateHolder, 'order' | 'ended'>,
): StateHolder => ({ ...session, repairs: () => new Repairs(state).read(), report: () => null, ...own });
