import { Socket } from 'node:net';
import { farEnd, serveRehearsal } from '../kernel/scratch/serve.ts';
import { runChildren } from '../kernel/run.ts';
import { exitCodes } from '../rollout/outcome.ts';
import { CommandError } from '../command-error.ts';
import { type Terminal } from './terminal.ts';

/**
 * `sluiced rehearse --stdin`: the far end of a rehearsal, as sluiced-rehearse@.service starts it. The connection is standard input, for
 * both directions. Exit code 0 when everything was loaded, 3 when a tool did not take it, 2 when that could not be found out.
 */
export async function rehearse(terminal: Terminal): Promise<number> {
  const answer = await serveRehearsal(connection(), farEnd(runChildren()));
  switch (answer.answer) {
    case 'good':
      terminal.out('the rules were loaded in a scratch namespace\n');
      return exitCodes.done;
    case 'refused':
      terminal.out(`part ${answer.part} was not taken: ${answer.why}\n`);
      return exitCodes.refused;
    case 'invalid':
    case 'failed':
      terminal.err(`error: Cannot rehearse (${answer.answer}): ${answer.why}\n`);
      return exitCodes.problem;
  }
}

function connection(): Socket {
  try {
    return new Socket({ fd: 0, readable: true, writable: true, allowHalfOpen: true });
  } catch (error) {
    throw new CommandError([
      {
        code: 'NODE_CONFIG_INVALID',
        level: 'error',
        message: `Cannot read a request: standard input is no socket (${error instanceof Error ? error.message : String(error)})`,
        hint: 'sluiced-rehearse.socket starts this command for each rehearsal; `sluiced preflight` says whether it works',
      },
    ]);
  }
}
