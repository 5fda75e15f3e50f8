import { fstatSync, statSync, writeSync } from 'node:fs';
import {
  type Archive,
  archiveLimits,
  bundleLimits,
  changesSince,
  fileDigest,
  filesOfNode,
  nodeFile,
  type NodeInRelease,
  printArchive,
  readRelease,
  readSums,
  type Release,
  releaseFile,
  sumsFile,
} from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import type { Format } from '@sluice/cli';
import { writeOutput } from '@sluice/renderer/emit/file.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { readRegular } from '@sluice/transport/files/regular.ts';
import { readWholeRelease, type WholeRelease, withoutSignature } from '@sluice/renderer/load/whole-release.ts';
import { orStop, reading, Stopped, writing } from '@sluice/renderer/commands/failure/failure.ts';
import { clearProgress, print, progress, say } from '@sluice/renderer/commands/output/progress.ts';
import { printDocument, reportProblems } from '@sluice/renderer/commands/output/output.ts';

interface PackOptions {
  readonly node?: string;
  readonly all?: boolean;
  /** A release directory: its files (with `node`, that node's files) are left out. */
  readonly base?: string;
  /** A path, or `-`. */
  readonly output: string;
  readonly report: Format;
}

/**
 * `sluice pack`: packs a release, or the files that one node needs, into one file. The same release gives the same bytes. Prints the
 * digest of the file, to standard error when the archive goes to standard output.
 */
export function packCommand(dir: string, { node, all, base, output, report }: PackOptions): number {
  if (node === undefined && all !== true) throw new Stopped(whose);
  progress(`reading ${dir}`);
  const whole = orStop(reading(dir, () => readWholeRelease(dir)));
  const files = node === undefined ? whole.files : partOf(dir, whole, node);
  const archive = base === undefined ? { files } : changes(files, base, node);
  progress(`packing ${archive.files.size} files`);
  const packed = printArchive(archive);
  if (packed.length > archiveLimits.archiveBytesMax) throw new Stopped(tooLarge(dir, packed.length));
  const isOut = writing(output, () => isStandardOutput(output));
  if (isOut) writing('standard output', () => writeOut(packed));
  else writing(output, () => writeOutput(output, packed));
  reportProblems(withoutSignature(dir, files, 'archive', 'pack it again'));
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

/** True also for a name such as /dev/stdout: nothing but the archive may go there. */
function isStandardOutput(output: string): boolean {
  if (output === '-') return true;
  const there = statSync(output, { throwIfNoEntry: false });
  const own = fstatSync(process.stdout.fd);
  return there?.dev === own.dev && there.ino === own.ino;
}

/** Writes every byte or throws: Node's stream drops data on a full disk, and a reader that closed the pipe has no archive. */
function writeOut(bytes: Uint8Array): void {
  clearProgress();
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeSync(process.stdout.fd, bytes, at);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
      // The pipe is full, and Node has made it non-blocking.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, retryMs);
    }
  }
}
const retryMs = 5;

function partOf(dir: string, { release, files }: WholeRelease, node: string): ReadonlyMap<string, string> {
  const profile = profileOf(release, node);
  if (profile === undefined) throw new Stopped(unknownNode(dir, node, 'the release does not contain this node'));
  if (!files.has(nodeFile(node)))
    throw new Stopped(unknownNode(dir, node, 'the directory contains only files for other nodes'));
  return filesOfNode(files, node, profile);
}

function profileOf({ nodes }: Release, node: string): string | undefined {
  return Object.hasOwn(nodes, node) ? nodes[node]?.profile : undefined;
}

/** Packs the changes since the base. A node has only its own files of the base, so fewer where its profile was another one. */
function changes(files: ReadonlyMap<string, string>, base: string, node: string | undefined): Archive {
  const sums = readBase(base, sumsFile).toString('latin1');
  const before = node === undefined ? undefined : nodeIn(base, sums, node);
  // A node that is not in the base has none of its files and would wait for the base forever.
  if (node !== undefined && before === undefined) return { files };
  const archive = changesSince(files, sums, before);
  if (typeof archive === 'string') throw new Stopped(noBase(base, `${archive} (${sumsFile})`));
  return archive;
}

/** Reads the node's entry in release.yaml of the base, after checking its digest. */
function nodeIn(base: string, sums: string, name: string): NodeInRelease | undefined {
  const named = readSums(sums);
  if (typeof named === 'string') throw new Stopped(noBase(base, `${named} (${sumsFile})`));
  const text = readBase(base, releaseFile).toString('utf8');
  if (named.get(releaseFile) !== fileDigest(text))
    throw new Stopped(noBase(base, `the digest of ${releaseFile} does not match ${sumsFile}`));
  const release = orStop(readRelease(text));
  const profile = profileOf(release, name);
  return profile === undefined ? undefined : { name, profile };
}

function readBase(base: string, file: string): Buffer {
  const bytes = reading(base, () => readRegular(`${base}/${file}`, bundleLimits.fileBytesMax));
  if (bytes === undefined) throw new Stopped(noBase(base, `${file} is missing`));
  if (typeof bytes === 'string') throw new Stopped(noBase(base, `${bytes} (${file})`));
  return bytes;
}

const noBase = (base: string, why: string): Problem =>
  refusal(
    'RELEASE_INVALID',
    `Cannot use ${base} as the base: ${why}`,
    'Pass the release directory that the nodes run now',
  );

function summary(output: string, { serial, cluster }: Release, { files, base }: Archive, packed: Uint8Array): string {
  const what = base === undefined ? 'release' : 'changes to release';
  const kilobytes = Math.ceil(packed.length / 1024);
  return `${output === '-' ? 'archive' : output}: ${what} ${serial} of ${cluster}, ${files.size} files, ${kilobytes} KiB\n`;
}

const whose = refusal(
  'INPUT_EMPTY',
  'Cannot pack the release: neither --node nor --all is given',
  'Pass --node NAME or --all',
);

const unknownNode = (dir: string, node: string, why: string): Problem =>
  refusal(
    'BUNDLE_UNKNOWN_NODE',
    `Cannot pack ${dir} for ${node}: ${why}`,
    '`nodes:` in release.yaml lists the nodes of the release',
  );

const tooLarge = (dir: string, bytes: number): Problem =>
  refusal(
    'INPUT_TOO_LARGE',
    `Cannot pack ${dir}: the archive would be ${bytes} bytes, and the limit is ${archiveLimits.archiveBytesMax}`,
    'Pack one archive per node (--node)',
  );
