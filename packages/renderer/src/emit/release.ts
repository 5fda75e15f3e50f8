import { readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import {
  completeFile,
  fileDigest,
  isReleaseFile,
  isSignatureFile,
  openingFile,
  openingSignatureFile,
  type Problem,
  releaseFile,
  sumsFile,
  wavesFile,
} from '@sluice/bundle';
import { readText } from '../load/tree.ts';
import { removeFile, replaceFile } from './file.ts';
import { makeFolder } from './folder.ts';
import { whileLocked } from './lock.ts';
import { planTree, writeAnew } from './tree.ts';

/** What a release consists of besides the bundle's files. */
export interface ReleaseTexts {
  readonly release: string;
  readonly sums: string;
  /** `waves.yaml`; undefined where all nodes take the release at once. */
  readonly waves: string | undefined;
}

/** Lies in the directory while a release is written to it. Readers pass over it: what is half written, no `SHA256SUMS` fits. */
export const begunFile = '.sluice-begun';

/** What it says: which `SHA256SUMS` the directory is to have, and so which release. */
export const begunText = (sums: string): string => `sha256:${fileDigest(sums)}\n`;

/**
 * Writes a release, one process at a time. `SHA256SUMS` comes last: a directory without the right one is no release. Signatures and
 * open waves of another release go; those of this very one stay. `release.yaml` comes first and is there at every instant: a write that
 * breaks off must not make anybody forget which serials were given. `.sluice-begun` is there even before it and goes at the very end:
 * by it the same command goes on, and does not take a directory that a person has changed for one that broke off.
 * @param objection asked before anything is changed, while nobody else writes: why this may not be written after all
 * @returns what was there: the same, or another one; or why nothing may be written there (`OUTPUT_NOT_A_BUNDLE`, the objection)
 * @throws what the file system throws
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
  // Waves that stay are never away: an update of endpoints takes them over.
  const keepsWaves = waves !== undefined && readText(dir, wavesFile) === waves;
  const goes = (name: string): boolean => goesFirst(name) && !(name === wavesFile && keepsWaves);
  for (const name of [sumsFile, ...readdirSync(dir).filter(goes)]) removeFile(join(dir, name));
  for (const path of plan.remove) removeFile(join(dir, path));
  for (const path of plan.write) {
    makeFolder(dirname(join(dir, path)));
    writeAnew(join(dir, path), files.get(path) as string);
  }
  if (waves !== undefined) replaceFile(join(dir, wavesFile), waves);
  replaceFile(join(dir, sumsFile), sums);
  removeFile(join(dir, begunFile));
  return 'written';
}

function goesFirst(name: string): boolean {
  return (isReleaseFile(name) && name !== releaseFile) || name === completeFile;
}

function busy(dir: string): Problem {
  return {
    code: 'OUTPUT_UNWRITABLE',
    level: 'error',
    message: `Cannot write ${dir}: another sluice writes a release there`,
    hint: 'Wait until it has ended; then run the same command again',
  };
}

/**
 * Writes beside a release what was made for it, unless another one was written there since: a signer may have looked for the passphrase
 * all the while.
 * @param digest of the `SHA256SUMS` for which it was made
 * @returns why nothing was written
 * @throws what the file system throws
 */
export function besideRelease(dir: string, digest: string, write: () => void): Problem | undefined {
  const done = whileLocked(dir, () => {
    if (fileDigest(readText(dir, sumsFile) ?? '') !== digest) return replaced(dir);
    write();
    return 'written';
  });
  return done === 'written' ? undefined : (done ?? busy(dir));
}

function replaced(dir: string): Problem {
  return {
    code: 'RELEASE_INVALID',
    level: 'error',
    message: `Cannot write to ${dir}: another release was written there meanwhile`,
    hint: 'Nothing was written. Look at that release; then run the same command again',
  };
}

/**
 * Adds a signature.
 * @param file a signature file that is not there yet
 * @throws what the file system throws: `EEXIST` when it is there
 */
export function writeSignature(dir: string, file: string, signature: string): void {
  if (!isSignatureFile(file)) throw new RangeError(`${file} is no name of a signature file`);
  writeFileSync(join(dir, file), signature, { flag: 'wx', flush: true });
}

/**
 * Writes how many waves are open. Each file is whole at every instant; between the two the signature does not fit, which opens nothing.
 * @param signature undefined: the one that is there goes, because it is of another text
 * @throws what the file system throws
 */
export function writeOpening(dir: string, text: string, signature: string | undefined): void {
  replaceFile(join(dir, openingFile), text);
  if (signature === undefined) removeFile(join(dir, openingSignatureFile));
  else replaceFile(join(dir, openingSignatureFile), signature);
}
