import { readFileSync } from 'node:fs';
import {
  type Archive,
  archiveLimits,
  changesSince,
  fileDigest,
  filesOfNode,
  isProblem,
  isSignatureFile,
  nodeFile,
  printArchive,
  type Problem,
  type Release,
  sumsFile,
} from '@sluice/bundle';
import { replaceFile } from '../emit/file.ts';
import { printProblems } from '../emit/problems.ts';
import { exitCodes } from '../exit.ts';
import { readWholeRelease, type WholeRelease } from '../load/whole-release.ts';
import { reading, Stopped, writing } from './failure.ts';
import { print, progress, say } from './progress.ts';

export interface PackOptions {
  readonly node?: string;
  readonly all?: boolean;
  /** A release directory: what it has is left out. */
  readonly base?: string;
  readonly output: string;
}

/** `sluice pack`: a release, or what one node needs of it, in one file. Prints the file's digest. The same release gives the same bytes. */
export function packCommand(dir: string, { node, all, base, output }: PackOptions): number {
  if (node === undefined && all !== true) throw new Stopped(whose);
  progress(`reading ${dir}`);
  const whole = reading(dir, () => readWholeRelease(dir));
  if (isProblem(whole)) throw new Stopped(whole);
  const files = node === undefined ? whole.files : partOf(dir, whole, node);
  const archive = base === undefined ? { files } : changes(files, base);
  progress(`packing ${archive.files.size} files`);
  const packed = printArchive(archive);
  if (packed.length > archiveLimits.archiveBytesMax) throw new Stopped(tooLarge(dir, packed.length));
  writing(output, () => replaceFile(output, packed));
  if (![...files.keys()].some(isSignatureFile)) say(printProblems([unsigned(dir)]));
  say(summary(output, whole.release, archive, packed));
  print(`sha256:${fileDigest(packed)}\n`);
  return exitCodes.done;
}

function partOf(dir: string, { release, files }: WholeRelease, node: string): ReadonlyMap<string, string> {
  const profile = Object.hasOwn(release.nodes, node) ? release.nodes[node]?.profile : undefined;
  if (profile === undefined) throw new Stopped(unknownNode(dir, node, 'it has no such node'));
  if (!files.has(nodeFile(node))) throw new Stopped(unknownNode(dir, node, 'it holds what other nodes need'));
  return filesOfNode(files, node, profile);
}

function changes(files: ReadonlyMap<string, string>, base: string): Archive {
  const sums = reading(base, () => readFileSync(`${base}/${sumsFile}`, 'latin1'));
  const archive = changesSince(files, sums);
  if (typeof archive !== 'string') return archive;
  throw new Stopped({
    code: 'RELEASE_INVALID',
    level: 'error',
    message: `Cannot use ${base} as the base: ${archive} (SHA256SUMS)`,
    hint: 'Name the release directory that the nodes have now',
  });
}

function summary(output: string, { serial, cluster }: Release, { files, base }: Archive, packed: Uint8Array): string {
  const what = base === undefined ? 'release' : 'changes to release';
  const kilobytes = Math.ceil(packed.length / 1024);
  return `${output}: ${what} ${serial} of ${cluster}, ${files.size} files, ${kilobytes} KiB\n`;
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
