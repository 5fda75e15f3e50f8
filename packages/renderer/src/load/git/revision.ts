import { existsSync } from 'node:fs';
import { type BundleFiles, bundleLimits, clusterFile, isOutsideTree, readPath } from '@sluice/bundle';
import { compareText, type Problem } from '@sluice/netfilter';
import { runGit, whyGit } from './run-git.ts';
import { type openTree, readTree } from '../tree.ts';

const bounds = { outputBytesMax: bundleLimits.treeBytesMax, timeoutMs: 60_000 } as const;

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
  // A revision that starts with a dash would be an option.
  if (!/^[A-Za-z0-9_@][\w./~^@{}+-]*$/.test(revision)) return unreadable(spec, `${revision} is not a valid revision`);
  try {
    return readRevision(revision, spec.slice(colon + 1).replace(/\/+$/, ''));
  } catch (error) {
    return unreadable(spec, whyGit(error));
  }
}

function readRevision(revision: string, path: string): BundleFiles | Problem {
  // Relative to the current directory.
  const place = path === '' || path === '.' ? `${revision}:./` : `${revision}:./${path}`;
  const tree = run(['rev-parse', '--verify', '--end-of-options', place]).toString('utf8').trim();
  const entries = run(['ls-tree', '-r', '-z', '--full-tree', tree])
    .toString('utf8')
    .split('\0')
    .filter(Boolean)
    .flatMap(entryOf);
  const foreign = entries.find((entry) => readPath(entry.path) === undefined);
  if (foreign) return notABundle(`${revision}:${path}/${foreign.path}`, 'this file is not part of a bundle');
  if (!entries.some((entry) => entry.path === clusterFile)) {
    return notABundle(`${revision}:${path}/${clusterFile}`, 'no such file');
  }
  const texts = readBlobs([...new Set(entries.map(({ blob }) => blob))]);
  entries.sort((a, b) => compareText(a.path, b.path));
  return new Map(entries.map((entry) => [entry.path, texts.get(entry.blob) ?? '']));
}

interface BlobEntry {
  readonly path: string;
  readonly blob: string;
}

/** A line of `git ls-tree`: `100644 blob <id>\t<path>`. Links and submodules are not valid in a bundle. */
function entryOf(line: string): readonly BlobEntry[] {
  const tab = line.indexOf('\t');
  const [mode = '', , blob = ''] = line.slice(0, tab).split(' ');
  const path = line.slice(tab + 1);
  if (isOutsideTree(path)) return [];
  return [{ path: mode.startsWith('100') ? path : `${path}?`, blob }];
}

/** All blobs with one process: `<id> blob <size>\n<bytes>\n` each. */
function readBlobs(ids: readonly string[]): ReadonlyMap<string, string> {
  const output = run(['cat-file', '--batch'], ids.map((id) => `${id}\n`).join(''));
  const texts = new Map<string, string>();
  let at = 0;
  for (const id of ids) {
    const end = output.indexOf(0x0a, at);
    const [, kind, size] = output.toString('latin1', at, end).split(' ');
    if (kind !== 'blob') throw new Error(`git has no file ${id}`);
    const start = end + 1;
    at = start + Number(size) + 1;
    texts.set(id, output.toString('utf8', start, at - 1));
  }
  return texts;
}

const run = (args: readonly string[], input = ''): Buffer => runGit('.', args, bounds, input);

function unreadable(spec: string, why: string): Problem {
  return {
    code: 'INPUT_UNREADABLE',
    level: 'error',
    message: `Cannot read the bundle ${spec}: ${why}`,
    hint: 'Pass a directory, or a Git revision with a directory, such as main:rendered',
  };
}

function notABundle(file: string, why: string): Problem {
  return {
    code: 'BUNDLE_INVALID',
    level: 'error',
    at: { file, line: 1, column: 1 },
    message: `Cannot read the bundle: ${why}`,
    hint: 'Pass a directory written by `sluice render`',
  };
}
