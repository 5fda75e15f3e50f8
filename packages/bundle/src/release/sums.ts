import { compareText } from '@sluice/netfilter';
import { sumsText } from '../seal/seal.ts';
import { clusterFile, profileIn, readPath } from '../tree.ts';
import { isSealedFile } from '../names.ts';

/**
 * The text of a release's `SHA256SUMS`.
 * @param digests path → file digest; only paths of a bundle, `release.yaml` and `waves.yaml` count
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
 * Reads `SHA256SUMS` strictly: sorted, without duplicates, only paths of a bundle, the last line with a line feed.
 * @returns path → file digest, or the error in words
 */
export function readSums(text: string): ReadonlyMap<string, string> | string {
  if (!text.endsWith('\n')) return 'its last line has no line feed';
  const digests = new Map<string, string>();
  let before = '';
  for (const [index, line] of text.slice(0, -1).split('\n').entries()) {
    const path = pathOf(line);
    if (!/^[0-9a-f]{64} {2}/.test(line)) return `line ${index + 1} is not of the form "<digest>  <path>"`;
    if (!isSealedFile(path) && readPath(path) === undefined)
      return `line ${index + 1} names a path that is not allowed in a bundle`;
    if (compareText(before, path) >= 0) return `line ${index + 1} is out of order, or repeats a path`;
    before = path;
    digests.set(path, line.slice(0, digestLength));
  }
  return digests;
}

/**
 * Compares the files of a directory with its `SHA256SUMS`. Only nodes and whole profiles may be missing.
 * @param digests path → file digest of every present file
 * @returns the first difference in words, or undefined
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
  const present = new Set([...there.keys()].map(profileIn));
  const lost = [...named.keys()].find((path) => !there.has(path) && !maybeAbsent(path, present));
  return lost === undefined ? undefined : `${lost} is listed, but missing`;
}

/** Files of other nodes. A missing file or profile of the node itself is detected on reading it. */
function maybeAbsent(path: string, present: ReadonlySet<string>): boolean {
  const profile = profileIn(path);
  return readPath(path)?.kind === 'node' || (profile !== '' && !present.has(profile));
}
