import { type Problem, refusal } from '@sluice/netfilter';
import { isReleaseFile, sumsFile } from '../names.ts';
import { readSums } from '../release/sums.ts';
import { fileDigest } from '../seal/seal.ts';
import { profileIn, readPath } from '../tree.ts';
import type { Archive } from './archive.ts';

/**
 * The files of a release that one node needs: everything but other nodes and other profiles.
 * @param files path → text of a release, `SHA256SUMS` and signatures among them; or path → digest
 * @param profile the node's profile
 */
export function filesOfNode(
  files: ReadonlyMap<string, string>,
  node: string,
  profile: string,
): ReadonlyMap<string, string> {
  const isNeeded = (path: string): boolean => {
    const what = readPath(path);
    if (what?.kind === 'node') return what.node === node;
    return what === undefined || !('profile' in what) || what.profile === profile;
  };
  return new Map([...files].filter(([path]) => isNeeded(path)));
}

/** A node's entry in a release. */
export interface NodeInRelease {
  readonly name: string;
  readonly profile: string;
}

/**
 * Computes the files in which a release differs from its base.
 * @param baseSums the `SHA256SUMS` of the base
 * @param node the node's entry in the base, which then has only the files in an archive of the base for that node; undefined when the
 * whole base is present
 * @returns the changes, or the error in the base's sums, in words
 */
export function changesSince(
  files: ReadonlyMap<string, string>,
  baseSums: string,
  node?: NodeInRelease,
): Archive | string {
  const named = readSums(baseSums);
  if (typeof named === 'string') return named;
  const had = node === undefined ? named : filesOfNode(named, node.name, node.profile);
  const changed = [...files].filter(([path, text]) => isReleaseFile(path) || had.get(path) !== fileDigest(text));
  return { files: new Map(changed), base: fileDigest(baseSums) };
}

/**
 * Applies changes to their base, or to the release that they result in. A profile with files missing from both belongs to another node
 * and is left out.
 * @param base path → text of the installed release; undefined when there is none
 * @returns the files of the whole release, or `ARCHIVE_BASE` when a different release is installed
 */
export function layOver(
  { files, base: wanted }: Archive,
  base: ReadonlyMap<string, string> | undefined,
): ReadonlyMap<string, string> | Problem {
  if (wanted === undefined) return files;
  const baseSums = base?.get(sumsFile);
  if (base === undefined || baseSums === undefined) return noBase(wanted, 'no release is installed');
  const installed = fileDigest(baseSums);
  // Further signatures and opened waves of the installed release are archives of changes, too.
  const isSame = baseSums === files.get(sumsFile);
  if (installed !== wanted && !isSame) return noBase(wanted, `the installed release has sha256:${installed}`);
  const named = readSums(files.get(sumsFile) ?? '');
  // Reported by the check of the sums.
  if (typeof named === 'string') return files;
  const whole = new Map(files);
  for (const [path, digest] of named) {
    const old = files.has(path) ? undefined : base.get(path);
    if (old !== undefined && fileDigest(old) === digest) whole.set(path, old);
  }
  const missing = [...named.keys()].filter((path) => !whole.has(path));
  const incomplete = new Set(missing.map(profileIn).filter(Boolean));
  return new Map([...whole].filter(([path]) => !incomplete.has(profileIn(path))));
}

const noBase = (wanted: string, why: string): Problem =>
  refusal(
    'ARCHIVE_BASE',
    `Cannot apply the changes in the archive: they require the release whose SHA256SUMS has sha256:${wanted}, but ${why}`,
    'Use an archive packed without --base, or import the releases in between first',
  );
