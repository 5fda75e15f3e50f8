import { exitCodes } from '../rollout/outcome.ts';
import { openSession } from './session.ts';
import { CommandError } from '../command-error.ts';
import { answer, type CommonOptions, loadConfig, type Terminal } from './terminal.ts';

/**
 * `sluiced recover`: for a node that lost its state directory while its rules are in the kernel. What the kernel holds of Sluice is the
 * generation that stands from now on; no rule changes, and the next bundle is a change from there. Exit code 3 when the node cannot.
 */
export async function recover(options: CommonOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  const session = await openSession(config, 'change', () => undefined);
  try {
    const { journal, reconciler } = session;
    if (journal.lost !== undefined) await reconciler.recover();
    // A journal that is lost, and that nothing in the store helps, is as good as none.
    const isKnown = journal.active !== undefined || journal.open !== undefined || journal.halted !== undefined;
    if (isKnown && journal.lost === undefined) throw new CommandError([nothingLost(config.state)]);
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
      text: `generation ${number} (version ${version}) is what the kernel holds: ${chains} chains, none was changed\nstart sluiced, or run \`sluiced apply\`: the bundle is a change from there\n`,
    });
    return exitCodes.done;
  } finally {
    session.close();
  }
}

const nothingLost = (state: string) =>
  ({
    code: 'NODE_STATE_INVALID',
    level: 'error',
    message: `Cannot recover: ${state} knows which rules are Sluice's`,
    hint: '`sluiced status` says what stands; `sluiced rollback` puts an earlier generation back',
  }) as const;
