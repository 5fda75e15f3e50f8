import type { Problem } from '../problem.ts';
import { isReleaseFile, sumsFile } from '../release/names.ts';
import { readSums } from '../release/sums.ts';
import { fileDigest } from '../seal.ts';
import { readPath } from '../tree.ts';
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

/** A node as it is in a release. */
export interface NodeInRelease {
  readonly name: string;
  readonly profile: string;
}

/**
 * What a release has that its base has not.
 * @param baseSums the `SHA256SUMS` of the base
 * @param node as it is in the base: it has what an archive of the base for it carries, and not the rest of what the sums name; left
 * out where all of the base is there
 * @returns the changes, or what is wrong with the sums of the base, in words
 */
export function changesSince(
  files: ReadonlyMap<string, string>,
  baseSums: string,
  node?: NodeInRelease,
): Archive | string {
  const named = readSums(baseSums);
  if (typeof named === 'string') return named;
  const had = node === undefined ? named : filesOfNode(named, node.name, node.profile);
  const fresh = [...files].filter(([path, text]) => isReleaseFile(path) || had.get(path) !== fileDigest(text));
  return { files: new Map(fresh), base: fileDigest(baseSums) };
}

/**
 * Lays changes over their base, or over the very release that they lead to. A profile that the base holds and the changes leave half new
 * is left out: another node's.
 * @param base path → text of the release that is there; none when undefined
 * @returns the files of the whole release, or `ARCHIVE_BASE` when the base is another one
 */
export function layOver(
  { files, base: wanted }: Archive,
  base: ReadonlyMap<string, string> | undefined,
): ReadonlyMap<string, string> | Problem {
  if (wanted === undefined) return files;
  const baseSums = base?.get(sumsFile);
  if (base === undefined || baseSums === undefined) return noBase(wanted, 'no release is there');
  const there = fileDigest(baseSums);
  // Where the release is there already, more signatures and open waves of it come this way.
  const isSame = baseSums === files.get(sumsFile);
  if (there !== wanted && !isSame) return noBase(wanted, `the one that is there has sha256:${there}`);
  const named = readSums(files.get(sumsFile) ?? '');
  // Said by who checks the sums, in its own words.
  if (typeof named === 'string') return files;
  const whole = new Map(files);
  for (const [path, digest] of named) {
    const old = files.has(path) ? undefined : base.get(path);
    if (old !== undefined && fileDigest(old) === digest) whole.set(path, old);
  }
  const halves = new Set([...named.keys()].filter((path) => !whole.has(path)).flatMap(profileOf));
  return new Map([...whole].filter(([path]) => !profileOf(path).some((profile) => halves.has(profile))));
}

function profileOf(path: string): readonly string[] {
  const what = readPath(path);
  return what && 'profile' in what ? [what.profile] : [];
}

function noBase(wanted: string, why: string): Problem {
  return {
    code: 'ARCHIVE_BASE',
    level: 'error',
    message: `Cannot use the changes in the archive: they are made for the release whose SHA256SUMS has sha256:${wanted}, and ${why}`,
    hint: 'Bring an archive that was packed without --base, or the releases in between first',
  };
}
