import { isProblem, layOver } from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import { type Checked, checkRelease } from '../../inbox/archive/check.ts';
import { makeStore, mayPlace, place, type Placed, releasesPath } from '../../inbox/archive/place.ts';
import { readArchiveFile, readPlaced } from '../../inbox/archive/read.ts';
import type { SluicedConfig } from '../../config.ts';
import { type Lock, takeLock } from '../../state/lock.ts';
import { runChildren } from '../../kernel/run.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { StateError } from '../../state/state-error.ts';
import { makeReleaseGate } from '../session/gate.ts';
import { CommandError, commandError, stateError } from '../../command-error.ts';
import { answer, type CommonOptions, loadConfig, printProblems, type Terminal } from '../terminal/terminal.ts';

/**
 * `sluiced import FILE`: checks a release archive and installs it as the bundle directory. This accepts nothing: the daemon, or `sluiced
 * apply`, checks it again and applies it.
 */
export async function importArchive(file: string, options: CommonOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  if (config.source) throw stateError(...fetches);
  const archive = readArchiveFile(file);
  if (isProblem(archive)) throw new CommandError([archive]);
  const occupied = mayPlace(config.bundle);
  if (occupied) throw new CommandError([occupied], exitCodes.refused);
  await writing(config.bundle, async () => makeStore(config.bundle));
  const lock = lockStore(config.bundle);
  try {
    const files = layOver(archive, archive.base === undefined ? undefined : readPlaced(config.bundle));
    if (isProblem(files)) throw new CommandError([files], exitCodes.refused);
    const checked = await checkRelease(
      files,
      config.node,
      makeReleaseGate(config, () => false),
    );
    if ('problems' in checked) throw new CommandError(checked.problems, exitCodes.refused);
    printProblems(checked.alarms, terminal);
    const placed = await placeRelease(config, checked, files);
    answer(options, terminal, {
      kind: 'Import',
      fields: fieldsOf(checked, placed, config),
      text: describe(checked, placed, config),
    });
    return exitCodes.done;
  } finally {
    lock[Symbol.dispose]();
  }
}

const fetches = [
  'Cannot import: this node fetches its releases from the source of its config',
  'Carry the release to the source, or remove `source` from sluiced.yaml first',
] as const;

async function placeRelease(
  { bundle }: SluicedConfig,
  { release, digest }: Checked,
  files: ReadonlyMap<string, string>,
): Promise<Placed> {
  const name = `${release.serial}-${digest.slice(0, 12)}`;
  const placed = await writing(bundle, () => place(bundle, name, files, runChildren()));
  if (isProblem(placed)) throw new CommandError([placed], exitCodes.refused);
  return placed;
}

/** Takes the lock: two imports at once would remove each other's files. */
function lockStore(bundle: string): Lock {
  try {
    return takeLock(releasesPath(bundle));
  } catch (error) {
    if (!(error instanceof StateError)) throw error;
    const locked = error.code === 'NODE_LOCKED';
    const hint = locked ? 'Wait until the other `sluiced import` has ended' : error.hint;
    const message = locked ? `Cannot import: another import into ${bundle} is in progress` : error.message;
    throw commandError(error.code, message, hint, exitCodes.refused);
  }
}

async function writing<T>(bundle: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new CommandError([unwritable(bundle, message)], exitCodes.refused);
  }
}

const unwritable = (bundle: string, why: string): Problem =>
  refusal(
    'OUTPUT_UNWRITABLE',
    `Cannot place the release at ${bundle}: ${why}`,
    'Check its permissions and the free space, then run the command again; the previous release is still in place',
  );

function fieldsOf(
  { release, accepted }: Checked,
  { directory, same }: Placed,
  { node, bundle }: SluicedConfig,
): object {
  const { serial, revision = null, cluster } = release;
  return { node, bundle, directory, same, cluster, serial, revision, signers: accepted?.signers ?? [] };
}

function describe({ release, accepted }: Checked, { directory, same }: Placed, { bundle }: SluicedConfig): string {
  const by = accepted ? `signed by ${accepted.signers.join(', ')}` : 'signatures are not required';
  return `${bundle}: release ${release.serial} of ${release.cluster}, ${by}${same ? ', unchanged' : ''}\n  in ${directory}\n`;
}
