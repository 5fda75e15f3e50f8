import { Socket } from 'node:net';
import type { Problem } from '@sluice/bundle';
import { farEnd, serveRehearsal } from '../kernel/scratch/serve.ts';
import { runChildren } from '../kernel/run.ts';
import { exitCodes } from '../rollout/outcome.ts';
import { CommandError } from '../command-error.ts';
import { answer as print, type CommonOptions, tellProblems, type Terminal } from './terminal.ts';

/**
 * `sluiced rehearse --stdin`: the far end of a rehearsal, as sluiced-rehearse@.service starts it. The connection is standard input, for
 * both directions. Exit code 0 when everything was loaded, 3 when a tool did not take it, 2 when that could not be found out.
 */
export async function rehearse(options: CommonOptions, terminal: Terminal): Promise<number> {
  const answer = await serveRehearsal(connection(), farEnd(runChildren()));
  switch (answer.answer) {
    case 'good':
      print(options, terminal, {
        kind: 'Rehearsal',
        fields: answer,
        text: 'the rules were loaded in a scratch namespace\n',
      });
      return exitCodes.done;
    case 'refused':
      print(options, terminal, {
        kind: 'Rehearsal',
        fields: answer,
        text: `part ${answer.part} was not taken: ${answer.why}\n`,
      });
      return exitCodes.refused;
    case 'invalid':
    case 'failed':
      tellProblems([notRehearsed(answer.answer, answer.why)], terminal);
      return exitCodes.problem;
  }
}

function notRehearsed(how: string, why: string): Problem {
  return {
    code: 'NODE_CANNOT_REHEARSE',
    level: 'error',
    message: `Cannot rehearse (${how}): ${why}`,
    hint: '`sluiced preflight` says what is missing on this node',
  };
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
