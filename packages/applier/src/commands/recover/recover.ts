import { exitCodes } from '../../ports/outcome.ts';
import { openSession } from '../session/session.ts';
import { CommandError, stateError } from '../../command-error.ts';
import { answer, type CommonOptions, loadConfig, type Terminal } from '../terminal/terminal.ts';

/**
 * `sluiced recover`: for a node that lost its state directory while its rules are in the kernel. Adopts the rules of Sluice in the kernel
 * as the active generation; changes no rule. Exit code 3 when that is not possible.
 */
export async function recover(options: CommonOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  using session = await openSession(config, 'change', () => undefined);
  const { journal, reconciler } = session;
  if (journal.lost !== undefined) await reconciler.recover();
  // A lost journal that the store cannot help with counts as none.
  const isKnown = journal.active !== undefined || journal.open !== undefined || journal.halted !== undefined;
  if (isKnown && journal.lost === undefined)
    throw stateError(
      `Cannot recover: the state in ${config.state} is not lost`,
      'See `sluiced status` for the active generation; `sluiced rollback` rolls back to an earlier one',
    );
  const found = await reconciler.recognise();
  if ('problems' in found) throw new CommandError(found.problems, exitCodes.refused);
  const chains = Object.values(found.state.families).reduce(
    (sum, { nat, filter }) => sum + nat.chains.size + filter.chains.size,
    0,
  );
  const { number, version } = found;
  answer(options, terminal, {
    kind: 'Recovery',
    fields: { node: config.node, generation: number, version, chains },
    text: `generation ${number} (version ${version}): adopted ${chains} chains from the kernel, none was changed\nstart sluiced, or run \`sluiced apply\`\n`,
  });
  return exitCodes.done;
}
