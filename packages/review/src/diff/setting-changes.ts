import { readPath } from '@sluice/bundle';
import { compareText } from '@sluice/netfilter';
import type { BundleView } from '../bundle/view.ts';

/** Lines of a file that only one of two bundles has. */
export interface SettingChange {
  /** The file; for several nodes with the same change, that of the last one: `nodes/node-a/node.yaml`. */
  readonly file: string;
  readonly old: readonly string[];
  readonly new: readonly string[];
}

/** Lines that only one of two files has, in any order; nodes with the same changes are merged. */
export function settingChanges(
  before: BundleView,
  after: BundleView,
  changed: ReadonlySet<string>,
): readonly SettingChange[] {
  const found = new Map<string, SettingChange>();
  for (const path of [...changed].toSorted(compareText)) {
    const what = readPath(path);
    if (!what || what.kind === 'service' || what.kind === 'git' || what.kind === 'quarantine') continue;
    // Added and removed nodes are counted separately.
    if (what.kind === 'node' && !(before.files.has(path) && after.files.has(path))) continue;
    const [old, updated] = [linesOf(before.files.get(path)), linesOf(after.files.get(path))];
    const change = {
      file: path,
      old: old.filter((line) => !updated.includes(line)),
      new: updated.filter((line) => !old.includes(line)),
    };
    if (change.old.length + change.new.length === 0) continue;
    found.set(what.kind === 'node' ? JSON.stringify([change.old, change.new]) : path, change);
  }
  return [...found.values()];
}

const linesOf = (text = ''): readonly string[] =>
  text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
