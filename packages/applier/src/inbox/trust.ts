import { type BigIntStats, lstatSync } from 'node:fs';
import { dirname } from 'node:path';

/** Why a directory cannot be read as a bundle. */
export class InboxError extends Error {
  override readonly name = 'InboxError';
  readonly hint: string;
  readonly code: 'BUNDLE_INCOMPLETE' | 'BUNDLE_UNTRUSTED';

  constructor(message: string, hint: string, code: 'BUNDLE_INCOMPLETE' | 'BUNDLE_UNTRUSTED' = 'BUNDLE_INCOMPLETE') {
    super(message);
    this.hint = hint;
    this.code = code;
  }
}

/**
 * Whose files are accepted. A user who can write a bundle can take the node off the network, so each file, each folder and each folder
 * above them must belong to one of these users and be writable by no other.
 */
export interface Trust {
  /** User ids. */
  readonly owners: ReadonlySet<number>;
  /** What is to be trusted, for messages; left out: the bundle directory. */
  readonly subject?: string;
  /** One file is trusted, and not its folder, which may be shared with the sticky bit: only root and the owner can replace a file there. */
  readonly isOfOneFile?: true;
}

/**
 * The superuser, the user that sluiced runs as, and the bundle owner of the config.
 * @param fetched the directory of the fetch process, whose owner counts: in a folder of root, only root gives it to a user
 */
export function trustOf(bundleOwner: number | undefined, fetched?: string): Trust {
  const own = process.geteuid?.() ?? 0;
  const owners = new Set([0, own, ...(bundleOwner === undefined ? [] : [bundleOwner])]);
  let isFound = fetched === undefined;
  return {
    get owners() {
      if (isFound) return owners;
      const owner = ownerBelowRoot(fetched ?? '', owners);
      if (owner !== undefined) owners.add(owner);
      isFound = owner !== undefined;
      return owners;
    },
  };
}

/** The owner of a directory; undefined where it does not exist, or users that are not trusted can write to the folder that it is in. */
function ownerBelowRoot(directory: string, owners: ReadonlySet<number>): number | undefined {
  try {
    const above = lstatSync(dirname(directory));
    const isOfRoot = owners.has(above.uid) && above.isDirectory() && (BigInt(above.mode) & writableByOthers) === 0n;
    return isOfRoot ? lstatSync(directory).uid : undefined;
  } catch {
    return undefined;
  }
}

/** Whether a folder or file is above the bundle, or inside it. Links count as above. */
type TrustPosition = 'above' | 'inside';

/** The same for `sluiced.yaml`, which names programs that run as root. */
export const configTrust = (): Trust => ({ ...trustOf(undefined), subject: 'the config', isOfOneFile: true });

const stickyBit = 0o1000n;
const writableByOthers = 0o022n;

/**
 * Refuses files that other users own or can write.
 * @param trust left out: an operator vouches for the directory, as on a command line, and nothing is checked
 * @throws InboxError (`BUNDLE_UNTRUSTED`)
 */
export function checkTrust(path: string, stats: BigIntStats, position: TrustPosition, trust: Trust | undefined): void {
  if (!trust) return;
  checkWriters(path, stats, position, trust);
  if (stats.isFile() && stats.nlink !== 1n) {
    throw untrusted(
      `${path} has ${stats.nlink} names (hard links)`,
      'Copy the file instead of linking it',
      trust.subject,
    );
  }
}

/**
 * The same, except for hard links: `git clone` of a local directory links the objects.
 * @param all a directory in which one wrong file means many; the hint covers all of it
 */
export function checkWriters(
  path: string,
  stats: BigIntStats,
  position: TrustPosition,
  trust: Trust,
  all?: string,
): void {
  if (!trust.owners.has(Number(stats.uid))) {
    const owners = [...trust.owners].toSorted((a, b) => a - b).join(' or ');
    const give = all === undefined ? 'Give it to user' : `Give all of ${all} to user`;
    const orElse = `, or set \`bundleOwner: ${stats.uid}\` in sluiced.yaml if that user writes bundles`;
    const hint = `${give} ${owners} (chown)${trust.subject === undefined ? orElse : ''}`;
    throw untrusted(`${path} belongs to user ${stats.uid}`, hint, trust.subject);
  }
  if (stats.isSymbolicLink()) return;
  // In a folder with the sticky bit, such as /tmp, users cannot rename the files of others.
  const isShared = position === 'above' && (stats.mode & stickyBit) !== 0n;
  if ((stats.mode & writableByOthers) !== 0n && !isShared) {
    const close = all === undefined ? `chmod go-w ${path}` : `chmod -R go-w ${all}`;
    const hint = (stats.mode & stickyBit) === 0n ? close : `Use a folder in which other users cannot make files`;
    throw untrusted(`${path} is writable by other users (mode ${modeOf(stats)})`, hint, trust.subject);
  }
}

function modeOf(stats: BigIntStats): string {
  return `0${(stats.mode & 0o7777n).toString(8)}`;
}

/** Why a bundle directory, or another subject, is not trusted. */
export function untrusted(what: string, hint: string, subject = 'the bundle directory'): InboxError {
  return new InboxError(`Cannot trust ${subject}: ${what}`, hint, 'BUNDLE_UNTRUSTED');
}
