import { fstatSync, statSync, writeSync } from 'node:fs';
import {
  type Archive,
  archiveLimits,
  bundleLimits,
  changesSince,
  fileDigest,
  filesOfNode,
  isProblem,
  isSignatureFile,
  nodeFile,
  type NodeInRelease,
  printArchive,
  type Problem,
  readRelease,
  readSums,
  type Release,
  releaseFile,
  sumsFile,
} from '@sluice/bundle';
import type { Format } from '@sluice/cli';
import { writeOutput } from '../emit/file.ts';
import { exitCodes } from '../exit.ts';
import { readRegular } from '../load/regular.ts';
import { readWholeRelease, type WholeRelease } from '../load/whole-release.ts';
import { reading, Stopped, writing } from './failure.ts';
import { clearProgress, print, progress, say } from './progress.ts';
import { printDocument, tellProblems } from './told.ts';

export interface PackOptions {
  readonly node?: string;
  readonly all?: boolean;
  /** A release directory: what it has, with `node` what that node has of it, is left out. */
  readonly base?: string;
  /** A path, or `-`. */
  readonly output: string;
  readonly report: Format;
}

/**
 * `sluice pack`: a release, or what one node needs of it, in one file. The same release gives the same bytes. Prints the file's digest, on
 * standard error where the archive goes to standard output.
 */
export function packCommand(dir: string, { node, all, base, output, report }: PackOptions): number {
  if (node === undefined && all !== true) throw new Stopped(whose);
  progress(`reading ${dir}`);
  const whole = reading(dir, () => readWholeRelease(dir));
  if (isProblem(whole)) throw new Stopped(whole);
  const files = node === undefined ? whole.files : partOf(dir, whole, node);
  const archive = base === undefined ? { files } : changes(files, base, node);
  progress(`packing ${archive.files.size} files`);
  const packed = printArchive(archive);
  if (packed.length > archiveLimits.archiveBytesMax) throw new Stopped(tooLarge(dir, packed.length));
  const isOut = writing(output, () => isStandardOutput(output));
  if (isOut) writing('standard output', () => writeOut(packed));
  else writing(output, () => writeOutput(output, packed));
  if (![...files.keys()].some(isSignatureFile)) tellProblems([unsigned(dir)]);
  say(summary(output, whole.release, archive, packed));
  const digest = `sha256:${fileDigest(packed)}`;
  if (report === 'text') (isOut ? say : print)(`${digest}\n`);
  const { serial, cluster } = whole.release;
  const fields = {
    output,
    digest,
    bytes: packed.length,
    files: archive.files.size,
    cluster,
    serial,
    node: node ?? null,
  };
  printDocument(report, 'PackResult', fields, isOut);
  return exitCodes.done;
}

/** Also under a name such as /dev/stdout: what goes there is the archive alone. */
function isStandardOutput(output: string): boolean {
  if (output === '-') return true;
  const there = statSync(output, { throwIfNoEntry: false });
  const own = fstatSync(process.stdout.fd);
  return there?.dev === own.dev && there.ino === own.ino;
}

/** To the last byte: the stream of Node forgets what a full disk has not taken, and a reader that has gone has no archive. */
function writeOut(bytes: Uint8Array): void {
  clearProgress();
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(process.stdout.fd, bytes, at);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      // The pipe is full, and Node has made it one that does not wait.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryMs);
    }
  }
}
const retryMs = 5;

function partOf(dir: string, { release, files }: WholeRelease, node: string): ReadonlyMap<string, string> {
  const profile = profileOf(release, node);
  if (profile === undefined) throw new Stopped(unknownNode(dir, node, 'it has no such node'));
  if (!files.has(nodeFile(node))) throw new Stopped(unknownNode(dir, node, 'it holds what other nodes need'));
  return filesOfNode(files, node, profile);
}

function profileOf({ nodes }: Release, node: string): string | undefined {
  return Object.hasOwn(nodes, node) ? nodes[node]?.profile : undefined;
}

/** For one node: what that node has of the base, which is less than the base where its profile was another one. */
function changes(files: ReadonlyMap<string, string>, base: string, node: string | undefined): Archive {
  const sums = readBase(base, sumsFile).toString('latin1');
  const before = node === undefined ? undefined : nodeIn(base, sums, node);
  // Not a file of the base is on a node that it does not have: there it would wait for that base in vain.
  if (node !== undefined && before === undefined) return { files };
  const archive = changesSince(files, sums, before);
  if (typeof archive === 'string') throw new Stopped(noBase(base, `${archive} (${sumsFile})`));
  return archive;
}

/** What the base says of a node, in the very release.yaml that its sums name. */
function nodeIn(base: string, sums: string, name: string): NodeInRelease | undefined {
  const named = readSums(sums);
  if (typeof named === 'string') throw new Stopped(noBase(base, `${named} (${sumsFile})`));
  const text = readBase(base, releaseFile).toString('utf8');
  if (named.get(releaseFile) !== fileDigest(text))
    throw new Stopped(noBase(base, `${releaseFile} has another digest than ${sumsFile} says`));
  const release = readRelease(text);
  if (isProblem(release)) throw new Stopped(release);
  const profile = profileOf(release, name);
  return profile === undefined ? undefined : { name, profile };
}

function readBase(base: string, file: string): Buffer {
  const bytes = reading(base, () => readRegular(`${base}/${file}`, bundleLimits.fileBytesMax));
  if (bytes === undefined) throw new Stopped(noBase(base, `it has no ${file}`));
  if (typeof bytes === 'string') throw new Stopped(noBase(base, `${bytes} (${file})`));
  return bytes;
}

function noBase(base: string, why: string): Problem {
  return {
    code: 'RELEASE_INVALID',
    level: 'error',
    message: `Cannot use ${base} as the base: ${why}`,
    hint: 'Name the release directory that the nodes have now',
  };
}

function summary(output: string, { serial, cluster }: Release, { files, base }: Archive, packed: Uint8Array): string {
  const what = base === undefined ? 'release' : 'changes to release';
  const kilobytes = Math.ceil(packed.length / 1024);
  return `${output === '-' ? 'archive' : output}: ${what} ${serial} of ${cluster}, ${files.size} files, ${kilobytes} KiB\n`;
}

const whose: Problem = {
  code: 'INPUT_EMPTY',
  level: 'error',
  message: 'Cannot pack the release: it is not said for whom',
  hint: 'Give --node with a name, or --all',
};

function unknownNode(dir: string, node: string, why: string): Problem {
  return {
    code: 'BUNDLE_UNKNOWN_NODE',
    level: 'error',
    message: `Cannot pack ${dir} for ${node}: ${why}`,
    hint: 'The names under `nodes:` in release.yaml are those that it is for',
  };
}

function unsigned(dir: string): Problem {
  return {
    code: 'RELEASE_UNSIGNED',
    level: 'warning',
    message: `Cannot find a signature in ${dir}: nodes that require one refuse this archive`,
    hint: 'Sign the release (`sluice sign`), then pack it again',
  };
}

function tooLarge(dir: string, bytes: number): Problem {
  return {
    code: 'INPUT_TOO_LARGE',
    level: 'error',
    message: `Cannot pack ${dir}: the archive would have ${bytes} bytes, and readers take ${archiveLimits.archiveBytesMax}`,
    hint: 'Pack it node by node (--node)',
  };
}
