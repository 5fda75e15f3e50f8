import { stateError } from '../../command-error.ts';
import { reach } from '../../control/ask.ts';
import { noProbation } from '../../control/decisions.ts';
import { exitCodes } from '../../ports/outcome.ts';
import type { Decision } from '../../ports/operator.ts';
import { checkReadable } from '../../state/peek.ts';
import { answer, type CommonOptions, loadConfig, type Terminal } from '../terminal/terminal.ts';

interface DecideOptions extends CommonOptions {
  /** The token of the probation that is meant; another one is refused. */
  readonly token?: string;
}

/** `sluiced confirm`, `sluiced cancel`, `sluiced extend`: sends a decision to the process that has a release on probation. */
export async function decide(decision: Decision, options: DecideOptions, terminal: Terminal): Promise<number> {
  const { node, state } = loadConfig(options);
  if (options.token !== undefined && !/^[0-9a-f]{8}$/.test(options.token))
    throw stateError(
      `Cannot use --token ${JSON.stringify(options.token)}: it is not a token`,
      'A token has 8 hex digits; `sluiced status` shows it',
    );
  checkReadable(state);
  const control = await reach(state);
  if (!control) throw noProbation(decision, node);
  const { version } = await control.decide({
    decision,
    ...(options.token === undefined ? {} : { token: options.token }),
  });
  answer(options, terminal, {
    kind: 'Decision',
    fields: { node, version, decision },
    text: `sent: ${decision.kind} version ${version}\n`,
  });
  return exitCodes.done;
}
