import { spawnSync } from 'node:child_process';
import { closeSync, constants, existsSync, fstatSync, openSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import {
  completeFile,
  fileDigest,
  isReleaseFile,
  isSignatureFile,
  openingFile,
  openingSignatureFile,
  releaseFile,
  sumsFile,
  wavesFile,
} from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import { readText } from '@sluice/renderer/load/tree.ts';
import { removeFile, replaceFile } from '@sluice/renderer/emit/file.ts';
import { makeFolder } from '@sluice/renderer/emit/folder.ts';
import { planTree, writeAgain } from '@sluice/renderer/emit/tree.ts';

/** The path in every distribution; PATH is not used. */
const flock = '/usr/bin/flock';
const waitSeconds = 60;
/** The exit code of flock(1) after a timeout, distinct from its error codes. */
const timeoutExitCode = 75;
/** Not the directory itself: a pipeline may lock that while it runs sluice. Readers of bundles ignore the name. */
const lockFile = '.sluice-lock';

/**
 * Runs `work` while holding the lock of a directory. flock(1) locks the open file that it inherits, so the lock of a killed process is
 * released. Without flock(1), or on a file system without locks, `work` runs unlocked.
 * @returns the result of `work`, or undefined when the lock was not released in time; then nothing was done
 * @throws errors of the file system and of `work`
 */
export function whileLocked<T>(dir: string, work: () => T): T | undefined {
  const path = join(dir, lockFile);
  for (;;) {
    const fd = open(path);
    if (fd === undefined) return work();
    try {
      const wait = ['-x', '-w', String(waitSeconds), '-E', String(timeoutExitCode), '3'];
      const { status } = spawnSync(flock, wait, { stdio: ['ignore', 'ignore', 'ignore', fd], env: {} });
      if (status === timeoutExitCode) return undefined;
      if (isAt(fd, path)) return removedAfter(path, work);
    } finally {
      closeSync(fd);
    }
  }
}

/** Undefined in a read-only directory: it cannot be written anyway, and a command with nothing to change must not fail. */
function open(path: string): number | undefined {
  const { O_RDONLY, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;
  try {
    return openSync(path, O_RDONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if ((code === 'EROFS' || code === 'EACCES') && !existsSync(path)) return undefined;
    throw error;
  }
}

/** False when the previous holder has removed the lock file: the next holder locks a new file. */
function isAt(fd: number, path: string): boolean {
  const [own, there] = [fstatSync(fd, { bigint: true }), statSync(path, { bigint: true, throwIfNoEntry: false })];
  return there?.ino === own.ino && there.dev === own.dev;
}

/** Removes the file while it is still locked, so that it is never found in a release or left behind unreadable. */
function removedAfter<T>(path: string, work: () => T): T {
  try {
    return work();
  } finally {
    removeFile(path);
  }
}

/** The files of a release besides those of the bundle. */
export interface ReleaseTexts {
  readonly release: string;
  readonly sums: string;
  /** `waves.yaml`; undefined when all nodes apply the release at once. */
  readonly waves: string | undefined;
}

/** Exists while a release is written. Readers ignore it: an incomplete release has no matching `SHA256SUMS`. */
export const begunFile = '.sluice-begun';

/** Its content: the digest of the `SHA256SUMS` to be written, which identifies the release. */
export const begunText = (sums: string): string => `sha256:${fileDigest(sums)}\n`;

/**
 * Writes a release, one process at a time. `SHA256SUMS` is written last: a directory without a matching one is not a release. Signatures
 * and the opening of another release are removed; those of this release are kept. `release.yaml` is written first and always exists: an
 * interrupted write must not lose the last serial. `.sluice-begun` is written before it and removed at the very end: it lets the same
 * command resume, and distinguishes an interrupted write from a directory that an operator has changed.
 * @param objection called before anything is changed, under the lock: a reason not to write after all
 * @returns `same` when the release was already there, or `written`; or why it was not written (`OUTPUT_NOT_A_BUNDLE`, the objection)
 * @throws errors of the file system
 */
export function writeRelease(
  dir: string,
  files: ReadonlyMap<string, string>,
  texts: ReleaseTexts,
  objection: () => Problem | undefined = () => undefined,
): 'same' | 'written' | Problem {
  makeFolder(dir);
  return whileLocked(dir, () => place(dir, files, texts, objection)) ?? busy(dir);
}

function place(
  dir: string,
  files: ReadonlyMap<string, string>,
  { release, sums, waves }: ReleaseTexts,
  objection: () => Problem | undefined,
): 'same' | 'written' | Problem {
  const plan = planTree(dir, files);
  if ('code' in plan) return plan;
  const isSame = plan.write.length === 0 && plan.remove.length === 0;
  const texts = { [releaseFile]: release, [wavesFile]: waves, [sumsFile]: sums };
  if (isSame && Object.entries(texts).every(([file, text]) => readText(dir, file) === text)) {
    if (readText(dir, begunFile) !== undefined) removeFile(join(dir, begunFile));
    return 'same';
  }
  const problem = objection();
  if (problem) return problem;
  replaceFile(join(dir, begunFile), begunText(sums));
  replaceFile(join(dir, releaseFile), release);
  // Waves that do not change always exist: an endpoint update takes them over.
  const keepsWaves = waves !== undefined && readText(dir, wavesFile) === waves;
  const isRemoved = (name: string): boolean => isRemovedFirst(name) && !(name === wavesFile && keepsWaves);
  for (const name of [sumsFile, ...readdirSync(dir).filter(isRemoved)]) removeFile(join(dir, name));
  for (const path of plan.remove) removeFile(join(dir, path));
  for (const path of plan.write) {
    makeFolder(dirname(join(dir, path)));
    writeAgain(join(dir, path), files.get(path) as string);
  }
  if (waves !== undefined) replaceFile(join(dir, wavesFile), waves);
  replaceFile(join(dir, sumsFile), sums);
  removeFile(join(dir, begunFile));
  return 'written';
}

function isRemovedFirst(name: string): boolean {
  return (isReleaseFile(name) && name !== releaseFile) || name === completeFile;
}

/** Why a directory was not written: another process has its lock. */
export const busy = (dir: string): Problem =>
  refusal(
    'OUTPUT_UNWRITABLE',
    `Cannot write ${dir}: another sluice process is writing a release there`,
    'Wait until that process has finished; then run the same command again',
  );

/**
 * Adds a file to a release, unless another release was written in the meantime: entering a passphrase may take a while.
 * @param digest of the `SHA256SUMS` that the file was made for
 * @returns why nothing was written; undefined after success
 * @throws errors of the file system
 */
export function besideRelease(dir: string, digest: string, write: () => void): Problem | undefined {
  const done = whileLocked(dir, () => {
    if (fileDigest(readText(dir, sumsFile) ?? '') !== digest) return replaced(dir);
    write();
    return 'written';
  });
  return done === 'written' ? undefined : (done ?? busy(dir));
}

const replaced = (dir: string): Problem =>
  refusal(
    'RELEASE_INVALID',
    `Cannot write to ${dir}: another release was written there in the meantime`,
    'Nothing was written. Check that release; then run the same command again',
  );

/**
 * Adds a signature.
 * @param file a new signature file
 * @throws errors of the file system: `EEXIST` for an existing file
 */
export function writeSignature(dir: string, file: string, signature: string): void {
  if (!isSignatureFile(file)) throw new RangeError(`${file} is not the name of a signature file`);
  writeFileSync(join(dir, file), signature, { flag: 'wx', flush: true });
}

/**
 * Writes the opening of waves. Each file is replaced atomically; between the two the signature does not match, which opens nothing.
 * @param signature undefined: the existing signature, of the old text, is removed
 * @throws errors of the file system
 */
export function writeOpening(dir: string, text: string, signature: string | undefined): void {
  replaceFile(join(dir, openingFile), text);
  if (signature === undefined) removeFile(join(dir, openingSignatureFile));
  else replaceFile(join(dir, openingSignatureFile), signature);
}
