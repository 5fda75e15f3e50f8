import { type Checkpoint, GenerationNotes } from '../../state/generation-notes.ts';
import { checkReadable } from '../../state/peek.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { stateError } from '../../command-error.ts';
import { withControl } from '../session/control.ts';
import { answer, type CommonOptions, loadConfig, type Terminal } from '../terminal/terminal.ts';

interface CheckpointOptions extends CommonOptions {
  readonly remove?: string;
}

/** `sluiced checkpoint [NAME]`: keeps the active generation under a name until the checkpoint is removed; without a name, lists all. */
export async function checkpoint(
  name: string | undefined,
  options: CheckpointOptions,
  terminal: Terminal,
): Promise<number> {
  const config = loadConfig(options);
  const { remove } = options;
  if (name !== undefined && remove !== undefined)
    throw stateError('Cannot create and remove a checkpoint at once', 'Pass a name, or --remove NAME');
  const print = (items: readonly Checkpoint[], text: string): void =>
    answer(options, terminal, {
      kind: 'Checkpoints',
      fields: { node: config.node, items: items.map(itemOf) },
      text,
    });
  if (name === undefined && remove === undefined) {
    checkReadable(config.state);
    const { checkpoints } = new GenerationNotes(config.state);
    if (checkpoints.length === 0) terminal.err('no checkpoints\n');
    print(checkpoints, checkpoints.map((one) => `${describe(one)}\n`).join(''));
    return exitCodes.done;
  }
  await withControl(config, terminal, async (control) => {
    const one =
      remove === undefined
        ? await control.checkpoint({ name: name ?? '' })
        : await control.removeCheckpoint({ name: remove });
    print([one], `${remove === undefined ? 'kept' : 'removed'}: ${describe(one)}\n`);
  });
  return exitCodes.done;
}

const describe = ({ name, at, generation: { number, version } }: Checkpoint): string =>
  `${name}  generation ${number}, version ${version}, since ${at}`;

const itemOf = ({ name, at, generation: { number, version } }: Checkpoint) => ({
  name,
  at,
  generation: number,
  version,
});
