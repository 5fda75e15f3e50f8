import { readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import {
  completeFile,
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
import { makeFolder } from './folder.ts';
import { planTree, writeAnew } from './tree.ts';

/** What a release consists of besides the bundle's files. */
export interface ReleaseTexts {
  readonly release: string;
  readonly sums: string;
  /** `waves.yaml`; undefined where all nodes take the release at once. */
  readonly waves: string | undefined;
}

/**
 * Writes a release. `SHA256SUMS` goes first and comes last: a directory without it is no release. Signatures and open waves of another
 * release go; those of this very one stay. `release.yaml` is there at every instant: a write that breaks off must not make anybody
 * forget which serials were given.
 * @returns what was there: the same, or another one; or why nothing may be written there (`OUTPUT_NOT_A_BUNDLE`)
 * @throws what the file system throws
 */
export function writeRelease(
  dir: string,
  files: ReadonlyMap<string, string>,
  { release, sums, waves }: ReleaseTexts,
): 'same' | 'written' | Problem {
  const plan = planTree(dir, files);
  if ('code' in plan) return plan;
  const isSame = plan.write.length === 0 && plan.remove.length === 0;
  const texts = { [releaseFile]: release, [wavesFile]: waves, [sumsFile]: sums };
  if (isSame && Object.entries(texts).every(([file, text]) => readText(dir, file) === text)) return 'same';
  makeFolder(dir);
  for (const name of [sumsFile, ...readdirSync(dir).filter(goesFirst)]) rmSync(join(dir, name), { force: true });
  for (const path of plan.remove) rmSync(join(dir, path));
  for (const path of plan.write) {
    makeFolder(dirname(join(dir, path)));
    writeAnew(join(dir, path), files.get(path) as string);
  }
  replace(join(dir, releaseFile), release);
  if (waves !== undefined) writeFileSync(join(dir, wavesFile), waves);
  writeFileSync(join(dir, sumsFile), sums, { flush: true });
  return 'written';
}

function goesFirst(name: string): boolean {
  return (isReleaseFile(name) && name !== releaseFile) || name === completeFile;
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
  replace(join(dir, openingFile), text);
  if (signature === undefined) rmSync(join(dir, openingSignatureFile), { force: true });
  else replace(join(dir, openingSignatureFile), signature);
}

/** The name beside it is one that no reader of a release takes for a part of it; a link that has it already is not followed. */
function replace(path: string, text: string): void {
  const beside = join(dirname(path), '.sluice-opening');
  rmSync(beside, { force: true });
  writeFileSync(beside, text, { flag: 'wx', flush: true });
  renameSync(beside, path);
}
