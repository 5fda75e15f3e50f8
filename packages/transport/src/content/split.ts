import { createHash } from 'node:crypto';
import { isOpeningFile, isSignatureFile, readPath, sumsFile } from '@sluice/bundle';
import { compareText, getOrInsert } from '@sluice/netfilter';

// How the files of a release are split into layers, so that few of them change with one Service. packages/bundle/README.md has the format.

/** Measured with 10,000 Services and 1,000 nodes (test/bench/fetch.ts): more buckets are smaller, but each has a line in a manifest. */
const filesPerBucket = 64;
const bucketsMax = { nodes: 64, sums: 64, profile: 128 } as const;

type FileTexts = ReadonlyMap<string, string>;

/** The files of the layers of a release; each has at least one. */
export interface SplitRelease {
  /** What all nodes need, first the small files, then parts of `SHA256SUMS`. */
  readonly shared: readonly FileTexts[];
  /** The files of nodes, with their bucket: `3/16`. */
  readonly nodes: readonly { readonly bucket: string; readonly files: FileTexts }[];
  /** By profile, sorted. */
  readonly profiles: readonly { readonly profile: string; readonly layers: readonly FileTexts[] }[];
}

/**
 * Splits a release. Signatures and openings are left out.
 * @param files path → text
 */
export function splitRelease(files: FileTexts): SplitRelease {
  const small = new Map<string, string>();
  const nodes = new Map<string, string>();
  const profiles = new Map<string, Map<string, string>>();
  for (const [path, text] of files) {
    const what = readPath(path);
    if (path === sumsFile || isSignatureFile(path) || isOpeningFile(path)) continue;
    if (what?.kind === 'node') nodes.set(path, text);
    else if (what && 'profile' in what) getOrInsert(profiles, what.profile, () => new Map()).set(path, text);
    else small.set(path, text);
  }
  const sums = Map.groupBy(linesOf(files.get(sumsFile) ?? ''), (line) => small.has(pathOf(line)));
  small.set(sumsFile, textOf(sums.get(true) ?? []));
  const others = new Map((sums.get(false) ?? []).map((line) => [pathOf(line), line]));
  return {
    shared: [small, ...inBuckets(others, bucketsMax.sums).map(({ files: lines }) => sumsLayer(lines))],
    nodes: inBuckets(nodes, bucketsMax.nodes),
    profiles: [...profiles]
      .toSorted(([a], [b]) => compareText(a, b))
      .map(([profile, own]) => ({
        profile,
        layers: inBuckets(own, bucketsMax.profile).map((layer) => layer.files),
      })),
  };
}

const sumsLayer = (lines: FileTexts): FileTexts => new Map([[sumsFile, textOf([...lines.values()])]]);

/**
 * Joins parts of `SHA256SUMS`.
 * @returns the text, sorted by path; undefined without a part, or where a part has no line feed at its end
 */
export function mergeSums(parts: readonly string[]): string | undefined {
  if (parts.length <= 1) return parts[0];
  if (!parts.every((part) => part === '' || part.endsWith('\n'))) return undefined;
  return textOf(parts.flatMap(linesOf).toSorted((a, b) => compareText(pathOf(a), pathOf(b))));
}

const linesOf = (text: string): string[] => text.split('\n').slice(0, -1);
const textOf = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join('');
const pathOf = (line: string): string => line.slice(64 + 2);

/** What buckets are chosen by: files of a Service are together, in every profile, for every tool. */
function keyOf(path: string): string {
  const what = readPath(path);
  if (what?.kind === 'service') return `${what.namespace}/${what.name}`;
  return what?.kind === 'node' ? what.node : path;
}

function bucketOf(key: string, count: number): number {
  return createHash('sha256').update(key).digest().readUInt32BE(0) % count;
}

/** Buckets that are not empty, by number. The count is a power of two, so that it seldom changes. */
function inBuckets(files: FileTexts, countMax: number): { readonly bucket: string; readonly files: FileTexts }[] {
  let count = 1;
  while (count < countMax && files.size > count * filesPerBucket) count *= 2;
  return [...Map.groupBy(files, ([path]) => bucketOf(keyOf(path), count))]
    .toSorted(([a], [b]) => a - b)
    .map(([number, entries]) => ({ bucket: `${number}/${count}`, files: new Map(entries) }));
}

/**
 * Whether the file of a node is in a bucket.
 * @param bucket such as `3/16`
 * @returns undefined for another form
 */
export function isInBucket(bucket: string, node: string): boolean | undefined {
  const [, number, count] = /^(\d{1,5})\/([1-9]\d{0,4})$/.exec(bucket) ?? [];
  return count === undefined ? undefined : bucketOf(node, Number(count)) === Number(number);
}
