import { type Checkpoint, GenerationNotes } from '../journal/generation-notes.ts';
import { checkReadable } from '../journal/peek.ts';
import { exitCodes } from '../rollout/outcome.ts';
import { stateError } from '../command-error.ts';
import { withControl } from './reach.ts';
import { type CommonOptions, loadConfig, type Terminal } from './terminal.ts';

export interface CheckpointOptions extends CommonOptions {
  readonly remove?: string;
  readonly output?: string;
}

/** `sluiced checkpoint [NAME]`: keeps the active generation under a name until the name is removed; without a name lists all. */
export async function checkpoint(
  name: string | undefined,
  options: CheckpointOptions,
  terminal: Terminal,
): Promise<number> {
  const config = loadConfig(options);
  const { remove, output } = options;
  if (name !== undefined && remove !== undefined)
    throw stateError('Cannot make a checkpoint and remove one at once', 'Name one, or use --remove NAME');
  const changed = (one: Checkpoint, what: string): void =>
    terminal.out(output === 'json' ? document(config.node, [one]) : `${what} ${describe(one)}\n`);
  if (name !== undefined)
    await withControl(config, terminal, async (control) => changed(await control.checkpoint({ name }), 'kept:'));
  else if (remove !== undefined)
    await withControl(config, terminal, async (control) =>
      changed(await control.removeCheckpoint({ name: remove }), 'removed:'),
    );
  else list(config.node, config.state, output, terminal);
  return exitCodes.done;
}

function list(node: string, state: string, output: string | undefined, terminal: Terminal): void {
  checkReadable(state);
  const { checkpoints } = new GenerationNotes(state);
  if (output === 'json') return terminal.out(document(node, checkpoints));
  if (checkpoints.length === 0) terminal.err('no checkpoints\n');
  for (const one of checkpoints) terminal.out(`${describe(one)}\n`);
}

const describe = ({ name, at, generation: { number, version } }: Checkpoint): string =>
  `${name}  generation ${number}, version ${version}, since ${at}`;

const document = (node: string, checkpoints: readonly Checkpoint[]): string =>
  `${JSON.stringify({ apiVersion: 'sluice.dev/v1alpha1', kind: 'Checkpoints', node, items: checkpoints.map(itemOf) }, undefined, 2)}\n`;

const itemOf = ({ name, at, generation: { number, version } }: Checkpoint) => ({
  name,
  at,
  generation: number,
  version,
});
