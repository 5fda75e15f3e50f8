import { Socket } from 'node:net';
import { type Problem, refusal } from '@sluice/netfilter';
import { rehearsalServer, serveRehearsal } from '../../kernel/scratch/serve.ts';
import { runChildren } from '../../kernel/run.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { commandError } from '../../command-error.ts';
import { answer as print, type CommonOptions, printProblems, type Terminal } from '../terminal/terminal.ts';

/**
 * `sluiced rehearse --stdin`: serves one rehearsal, as sluiced-rehearse@.service starts it. Standard input is the connection, in both
 * directions. Exit code 0 when everything was loaded, 3 when a tool refused it, 2 when that could not be found out.
 */
export async function rehearse(options: CommonOptions, terminal: Terminal): Promise<number> {
  const answer = await serveRehearsal(connection(), rehearsalServer(runChildren()));
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
        text: `part ${answer.part} was refused: ${answer.why}\n`,
      });
      return exitCodes.refused;
    case 'invalid':
    case 'failed':
      printProblems([notRehearsed(answer.answer, answer.why)], terminal);
      return exitCodes.problem;
  }
}

const notRehearsed = (how: string, why: string): Problem =>
  refusal(
    'NODE_CANNOT_REHEARSE',
    `Cannot rehearse (${how}): ${why}`,
    'Run `sluiced preflight` to see what is missing on this node',
  );

function connection(): Socket {
  try {
    return new Socket({ fd: 0, readable: true, writable: true, allowHalfOpen: true });
  } catch (error) {
    throw commandError(
      'NODE_CONFIG_INVALID',
      `Cannot read a request: standard input is not a socket (${error instanceof Error ? error.message : String(error)})`,
      'Do not run it by hand: sluiced-rehearse.socket starts it for each rehearsal; `sluiced preflight` checks it',
    );
  }
}
