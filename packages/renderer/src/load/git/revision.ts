import { existsSync } from 'node:fs';
import { type BundleFiles, clusterFile, readPath } from '@sluice/bundle';
import { compareText, type Problem, refusal } from '@sluice/netfilter';
import { askGit, type BlobEntry, listBlobs, placeIn, readBlobs } from './objects.ts';
import { whyGit } from './run-git.ts';
import { type openTree, readTree, unreadableFile } from '../tree.ts';

/**
 * Reads a bundle from a directory (`rendered`) or from a Git revision (`main:rendered`, from the object store: the work tree is not
 * touched).
 * @param spec an existing directory, whatever its name, or a revision and a path
 * @param readDirectory `openTree` to read files of a directory on demand
 * @returns path → text, or why it is not a bundle (`BUNDLE_INVALID`, `INPUT_UNREADABLE`)
 */
export function readBundle(spec: string, readDirectory: typeof openTree = readTree): BundleFiles | Problem {
  const colon = spec.indexOf(':');
  if (colon <= 0 || existsSync(spec))
    return existsSync(spec) ? readDirectory(spec) : unreadable(spec, 'no such directory');
  const revision = spec.slice(0, colon);
  if (!isRevision(revision)) return unreadable(spec, `${revision} is not a valid revision`);
  try {
    return readRevision(revision, spec.slice(colon + 1).replace(/\/+$/, ''));
  } catch (error) {
    return unreadable(spec, whyGit(error));
  }
}

/** Whether a text can be a revision. One that starts with a dash would be an option. */
export const isRevision = (text: string): boolean => /^[A-Za-z0-9_@][\w./~^@{}+-]*$/.test(text);

function readRevision(revision: string, path: string): BundleFiles | Problem {
  const here = { directory: '.' };
  // Relative to the current directory.
  const tree = askGit(here, ['rev-parse', '--verify', '--end-of-options', placeIn(revision, path)]);
  const entries = [...listBlobs(here, tree.toString('utf8').trim())];
  const wrong = notABundle(`${revision}:${path}`, entries);
  if (wrong) return wrong;
  const texts = readBlobs(here, [...new Set(entries.map(({ blob }) => blob))]);
  entries.sort((a, b) => compareText(a.path, b.path));
  return new Map(entries.map((entry) => [entry.path, texts.get(entry.blob)!]));
}

/** Why files are not those of a bundle; undefined where they are. @param from `main:rendered` */
export function notABundle(from: string, entries: readonly BlobEntry[]): Problem | undefined {
  const foreign = entries.find((entry) => readPath(entry.path) === undefined);
  if (foreign) return unreadableFile(`${from}/${foreign.path}`, 'this file is not part of a bundle');
  return entries.some((entry) => entry.path === clusterFile)
    ? undefined
    : unreadableFile(`${from}/${clusterFile}`, 'no such file');
}

const unreadable = (spec: string, why: string): Problem =>
  refusal(
    'INPUT_UNREADABLE',
    `Cannot read the bundle ${spec}: ${why}`,
    'Pass a directory, or a Git revision with a directory, such as main:rendered',
  );
