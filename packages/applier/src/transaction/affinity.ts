import { type BundleFiles, differing, withTexts } from '@sluice/bundle';
import type { Change } from './transaction.ts';
import { familiesOf, type NodeState, tableOf } from '../rollout/state.ts';

/** How long clients are kept in lists of the kernel (`-m recent`): the name of a list → seconds. */
export type Lists = ReadonlyMap<string, number>;

export const noLists: Lists = new Map();

/**
 * The lists of session affinity in which a release keeps clients for a shorter time than what stands does.
 *
 * Both programs of a trial share the kernel's lists, and a rule forgets (`--reap`) whoever is in them for longer than its own seconds.
 * A client that was forgotten on trial would be unknown to the old rules, too, should they come back: see `withLonger`.
 * @returns each with the seconds that stand
 */
export function forgets({ lane, from, bundle }: Pick<Change, 'lane' | 'from' | 'bundle'>): Lists {
  if (lane !== 'release') return noLists;
  return shorter(from.state, bundle.state);
}

function shorter(from: NodeState, goal: NodeState): Lists {
  const lists = new Map<string, number>();
  for (const family of familiesOf(goal)) {
    const [before, after] = [tableOf(from, family, 'nat').chains, tableOf(goal, family, 'nat').chains];
    const names = differing(before, after);
    const stand = new Map(asksIn(before, names));
    for (const [list, seconds] of asksIn(after, names)) {
      const stands = stand.get(list) ?? 0;
      if (seconds < stands) lists.set(list, stands);
    }
  }
  return lists;
}

/** A bundle whose rules keep clients in some lists for so long. */
export function withLonger(files: BundleFiles, lists: Lists): BundleFiles {
  const texts = new Map<string, string>();
  for (const [path, text] of files) {
    if (!text.includes(' --rcheck ')) continue;
    const longer = text
      .split('\n')
      .map((line) => withSeconds(line, lists))
      .join('\n');
    if (longer !== text) texts.set(path, longer);
  }
  return withTexts(files, texts);
}

const askPart = / -m recent(?: --(?:rcheck|reap|rsource|(?:name|mask|seconds) \S+))+/;

/** The questions to lists in some chains: name and seconds of each. */
function asksIn(chains: ReadonlyMap<string, readonly string[]>, names: readonly string[]): readonly [string, number][] {
  return names.flatMap((name) => (chains.get(name) ?? []).flatMap((rule) => askOf(rule) ?? []));
}

/** @returns undefined for a rule that asks no list */
function askOf(rule: string): [string, number][] | undefined {
  // Most rules ask none: a release may change all of them.
  if (!rule.includes(' --rcheck ')) return undefined;
  const asked = askPart.exec(rule)?.[0] ?? '';
  const [, list] = / --name (\S+)/.exec(asked) ?? [];
  const [, seconds] = / --seconds (\d+)/.exec(asked) ?? [];
  return list === undefined || seconds === undefined ? undefined : [[list, Number(seconds)]];
}

function withSeconds(rule: string, lists: Lists): string {
  const [[list, seconds] = ['', 0]] = askOf(rule) ?? [];
  const stands = lists.get(list) ?? 0;
  if (seconds >= stands) return rule;
  return rule.replace(askPart, (asked) => asked.replace(/ --seconds \d+/, ` --seconds ${stands}`));
}
