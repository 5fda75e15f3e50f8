import { readdirSync, writeFileSync } from 'node:fs';
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
import { busy, whileLocked } from '@sluice/renderer/emit/lock.ts';
import { planTree, writeAgain } from '@sluice/renderer/emit/tree.ts';

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
