import { compareText } from '../problem.ts';
import { sumsText } from '../seal.ts';
import { clusterFile, readPath } from '../tree.ts';
import { isSealedFile } from './names.ts';

/**
 * The text of a release's `SHA256SUMS`.
 * @param digests path → file digest; of what no tree has, only `release.yaml` and `waves.yaml` count
 */
export function releaseSums(digests: ReadonlyMap<string, string>): string {
  const own = [...digests].flatMap(([path, digest]) => (isSealedFile(path) ? [`${digest}  ${path}`] : []));
  return [...sumsText(digests).split('\n').slice(0, -1), ...own]
    .toSorted((a, b) => compareText(pathOf(a), pathOf(b)))
    .map((line) => `${line}\n`)
    .join('');
}

const digestLength = 64;
const pathOf = (line: string): string => line.slice(digestLength + 2);

/**
 * Reads `SHA256SUMS` strictly: sorted, each path once, only paths that a bundle may have, the last line ended.
 * @returns path → file digest, or what is wrong with it, in words
 */
export function readSums(text: string): ReadonlyMap<string, string> | string {
  if (!text.endsWith('\n')) return 'its last line has no end';
  const digests = new Map<string, string>();
  let before = '';
  for (const [index, line] of text.slice(0, -1).split('\n').entries()) {
    const path = pathOf(line);
    if (!/^[0-9a-f]{64} {2}/.test(line)) return `line ${index + 1} is not of the form "<digest>  <path>"`;
    if (!isSealedFile(path) && readPath(path) === undefined) return `line ${index + 1} names a path that no bundle has`;
    if (compareText(before, path) >= 0) return `line ${index + 1} is not in order, or names a path again`;
    before = path;
    digests.set(path, line.slice(0, digestLength));
  }
  return digests;
}

/**
 * Holds the files of a directory against its `SHA256SUMS`. Nodes and whole profiles may be missing, nothing else.
 * @param digests path → file digest of every file that is there
 * @returns what does not fit, in words, or undefined
 */
export function sumsMisfit(text: string, digests: ReadonlyMap<string, string>): string | undefined {
  const named = readSums(text);
  if (typeof named === 'string') return named;
  const there = new Map([...digests].filter(([path]) => isSealedFile(path) || readPath(path) !== undefined));
  for (const [path, digest] of there) {
    if (!named.has(path)) return `it does not name ${path}`;
    if (named.get(path) !== digest) return `${path} has another digest`;
  }
  if (!named.has(clusterFile)) return `it does not name ${clusterFile}`;
  const present = new Set([...there.keys()].flatMap(profileOf));
  const lost = [...named.keys()].find((path) => !there.has(path) && !maybeAbsent(path, present));
  return lost === undefined ? undefined : `${lost} is named and not there`;
}

function profileOf(path: string): readonly string[] {
  const what = readPath(path);
  return what && 'profile' in what ? [what.profile] : [];
}

/** What other nodes run. That the node's own file and profile are there is seen when they are read. */
function maybeAbsent(path: string, present: ReadonlySet<string>): boolean {
  const what = readPath(path);
  return what?.kind === 'node' || (what !== undefined && 'profile' in what && !present.has(what.profile));
}
