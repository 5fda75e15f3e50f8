import { objectsIn } from '@sluice/cli';
import { askGit, type BundlePlace } from './objects.ts';

/** A commit, as reports name it. */
export interface Commit {
  /** Its whole id. */
  readonly id: string;
  /** When it was committed: seconds since 1970. */
  readonly seconds: number;
  readonly author: string;
  /** The first line of its message. Control characters are spaces: they could forge the output of a terminal. */
  readonly summary: string;
  readonly parents: readonly string[];
}

/** Reads one commit. @throws Error as `readCommits` */
export const readCommit = (place: BundlePlace, id: string): Commit => readCommits(place, [id])[0]!;

/**
 * Reads commit objects with one process. `git log` and `git show` would start the programs that the repository's config names for
 * signatures.
 * @param ids whole ids
 * @throws Error for a missing one, or with git's `stderr`
 */
export function readCommits(place: BundlePlace, ids: readonly string[]): readonly Commit[] {
  if (ids.length === 0) return [];
  const output = askGit(place, ['cat-file', '--batch'], ids.map((id) => `${id}\n`).join(''));
  const objects = objectsIn(output, 'commit', ids);
  return ids.map((id, at) => commitIn(id, objects[at]!.toString('utf8')));
}

function commitIn(id: string, text: string): Commit {
  const end = text.indexOf('\n\n');
  const head = end < 0 ? text : text.slice(0, end);
  const fields = (key: string): readonly string[] =>
    [...head.matchAll(new RegExp(`^${key} (.*)$`, 'gm'))].map(([, value = '']) => value);
  return {
    id,
    seconds: Number(/ (\d+) [+-]\d+$/.exec(fields('committer')[0] ?? '')?.[1] ?? 0),
    author: oneLine(/^(.*?) ?</.exec(fields('author')[0] ?? '')?.[1] ?? ''),
    summary: oneLine(
      end < 0
        ? ''
        : text
            .slice(end + 2)
            .trimStart()
            .split('\n', 1)[0]!,
    ),
    parents: fields('parent'),
  };
}

/** The most characters of a summary or a name. */
const charactersMax = 200;

const oneLine = (text: string): string => text.replaceAll(/\p{C}/gu, ' ').trim().slice(0, charactersMax);
