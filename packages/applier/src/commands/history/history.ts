import { document } from '@sluice/cli';
import { GenerationNotes } from '../../state/generation-notes.ts';
import { checkReadable, peek } from '../../state/peek.ts';
import type { HistoryEntry } from '../../state/record.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { type RepairAt, Repairs } from '../../observe/status/repairs.ts';
import { controlStatus } from '../session/daemon-status.ts';
import { type CommonOptions, loadConfig, type Terminal } from '../terminal/terminal.ts';

/** An item of `history -o json`: an entry of the state directory, with the version before it, or a repair. */
type HistoryItem = ChangeItem | RepairItem;

interface ChangeItem extends HistoryEntry {
  /** The active version before the change; null when there was none. */
  readonly from: string | null;
  /** The active version after the change; null after a cleanup. */
  readonly to: string | null;
  /** The serial of the generation's release; null without one, or when it is no longer kept. */
  readonly serial: number | null;
}

/** A drift repair. */
interface RepairItem {
  readonly at: string;
  readonly what: 'repaired';
  readonly steps: number;
  /** The programs that changed the rules, where the kernel tells. */
  readonly by: string | null;
  /** Some of their changes, each as the command that makes it. */
  readonly changes: readonly string[];
}

/** `sluiced history`: the changes on this node, newest last. */
export async function history(options: CommonOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  checkReadable(config.state);
  const running = await controlStatus(config.state);
  const record = running?.record ?? peek(config.state);
  const changes = withVersions(record?.history ?? [], new GenerationNotes(config.state));
  const items = inTime(changes, (running?.repairs ?? new Repairs(config.state).read()).map(itemOf));
  if (options.output === 'json') {
    terminal.out(document('NodeHistory', { node: config.node, items }));
    return exitCodes.done;
  }
  if (items.length === 0) terminal.err('no changes on this node yet\n');
  for (const item of items) terminal.out(`${item.at}  ${labelOf(item).padEnd(11)}  ${printItem(item)}\n`);
  return exitCodes.done;
}

/** Keeps the order of the journal whatever its clock was; a repair goes before the first later change. */
function inTime(changes: readonly ChangeItem[], repairs: readonly RepairItem[]): readonly HistoryItem[] {
  const left = [...repairs];
  const merged = changes.flatMap((change): readonly HistoryItem[] => {
    const later = left.findIndex(({ at }) => at > change.at);
    return [...left.splice(0, later < 0 ? left.length : later), change];
  });
  return [...merged, ...left];
}

const itemOf = ({ at, steps, by, what }: RepairAt): RepairItem => ({ at, what: 'repaired', steps, by, changes: what });

/** A confirmed release that lacks some Services is not one like the others. */
const labelOf = (item: HistoryItem): string => ('without' in item && item.without ? 'partial' : item.what);

function printItem(item: HistoryItem): string {
  if (item.what === 'repaired') {
    const what = item.changes.length === 0 ? '' : `: ${item.changes.join('; ')}`;
    return `rules were changed by ${item.by ?? 'another program'}${what}`;
  }
  const { what, generation, from, to, version, because, serial } = item;
  const way =
    what === 'rolled-back' || what === 'held'
      ? `${from ?? 'nothing'} ← ${version}`
      : `${from ?? 'nothing'} → ${to ?? 'nothing'}`;
  const why = because === undefined ? '' : `  ${because}`;
  const release = serial === null ? '' : `  release ${serial}`;
  return `generation ${String(generation).padEnd(4)}  ${way}${release}${why}`;
}

/** Adds the versions before and after each entry: a change that was rolled back, or that halted the node, changed nothing. */
function withVersions(entries: readonly HistoryEntry[], notes: GenerationNotes): readonly ChangeItem[] {
  let active: string | null = null;
  return entries.map((entry) => {
    const from = active;
    if (entry.what === 'cleaned-up') active = null;
    else if (entry.what !== 'rolled-back' && entry.what !== 'held') active = entry.version;
    return { ...entry, from, to: active, serial: notes.serialOf(entry.generation) ?? null };
  });
}
