/** The version of what is built from this checkout. */
import { version as checkout } from '../packages/cli/src/version.ts';
import { PackageError, run } from './package/run.ts';

const form = /^\d+\.\d+\.\d+(-dev\.\d+\+g[0-9a-f]{7,40}(\.dirty)?)?$/;

/**
 * `X.Y.Z` at a commit with the tag `vX.Y.Z`; otherwise `X.Y.Z-dev.N+gHASH` of the release that comes next: N commits since the last tag,
 * so that package managers see each as an upgrade of those before. `.dirty` ends it where files differ from the commit.
 * SLUICE_VERSION, in one of these forms, goes before: for a build without Git.
 * @throws PackageError for another form, and where Git cannot tell
 */
export function buildVersion(root: string): string {
  const given = process.env['SLUICE_VERSION'];
  if (given !== undefined) {
    if (form.test(given)) return given;
    throw new PackageError(
      `Cannot build version "${given}": it is not of the form X.Y.Z or X.Y.Z-dev.N+gHASH`,
      'Set SLUICE_VERSION to one of these forms, or unset it: Git knows the version',
    );
  }
  return versionOf(factsOf(root), checkout.replace(/-dev$/, ''));
}

/** What Git says of a checkout. */
interface CommitFacts {
  /** The tags at the commit itself. */
  readonly tags: readonly string[];
  /** Commits since the last tag of a version; all, where there is none. */
  readonly commits: number;
  /** Seven digits or more. */
  readonly hash: string;
  readonly isDirty: boolean;
}

/** @param next the release that comes next, as X.Y.Z */
export function versionOf({ tags, commits, hash, isDirty }: CommitFacts, next: string): string {
  const tagged = tags.find((tag) => /^v\d+\.\d+\.\d+$/.test(tag));
  if (tagged === undefined || isDirty) return `${next}-dev.${commits}+g${hash}${isDirty ? '.dirty' : ''}`;
  if (tagged === `v${next}`) return next;
  throw new PackageError(
    `Cannot build the tag ${tagged}: the version in packages/cli/src/version.ts is ${next}`,
    `Set it to ${tagged.slice(1)} and tag that commit`,
  );
}

function factsOf(root: string): CommitFacts {
  const git = (...argv: readonly string[]): string => run('git', ['-C', root, ...argv]).trim();
  if (git('rev-parse', '--is-shallow-repository') === 'true') {
    throw new PackageError(
      'Cannot count the commits since the last release: the clone is shallow',
      'git fetch --unshallow --tags, or set SLUICE_VERSION',
    );
  }
  const [last = ''] = git('tag', '--merged', 'HEAD', '--sort=-version:refname', '--list', 'v[0-9]*').split('\n');
  return {
    tags: git('tag', '--points-at', 'HEAD').split('\n'),
    commits: Number(git('rev-list', '--count', last === '' ? 'HEAD' : `${last}..HEAD`)),
    hash: git('rev-parse', '--short=7', 'HEAD'),
    isDirty: git('status', '--porcelain', '--untracked-files=no') !== '',
  };
}

/** As dpkg and rpm order versions: `~` is before everything, so that a release is newer than what led to it. */
export const orderedVersion = (version: string): string => version.replace('-', '~');

/** As a tag of an image, which may have no `+`. */
export const tagVersion = (version: string): string => version.replace('+', '-');
