import { existsSync, readdirSync, readFileSync, realpathSync } from 'node:fs';
import {
  bundleLimits,
  compareText,
  isProblem,
  isReleaseFile,
  makeRelease,
  makeWaves,
  printRelease,
  printWaves,
  type Problem,
  readRelease,
  readWaves,
  readWishes,
  type Release,
  releaseFile,
  type ReleaseTerms,
  sumsOf,
  unlikeWaves,
  wavesFile,
  type WaveWish,
} from '@sluice/bundle';
import { printProblems } from '../emit/problems.ts';
import { type ReleaseTexts, writeRelease } from '../emit/release.ts';
import { exitCodes } from '../exit.ts';
import { readText } from '../load/tree.ts';
import { bundleAt } from './bundle-at.ts';
import { incomplete } from './complete.ts';
import { reading, Stopped, writing } from './failure.ts';
import { print, progress, say } from './progress.ts';

export interface ReleaseOptions {
  /** Left out for an update of endpoints. */
  readonly serial?: number | 'auto';
  /** An update of endpoints of the release that the output directory holds. */
  readonly endpoints?: boolean;
  readonly source: string;
  readonly expires?: string;
  /** A file with the waves. */
  readonly wave?: string;
  readonly output: string;
}

/** `sluice release`: a bundle with what it is, and one file that covers all of it. The same arguments give the same bytes. */
export function releaseCommand(spec: string, options: ReleaseOptions): number {
  const { output } = options;
  if (isSamePlace(spec, output)) throw new Stopped(sameDirectory(output));
  progress(`reading ${spec}`);
  const files = bundleAt(spec);
  const half = existsSync(spec) ? incomplete(spec, files)[0] : undefined;
  if (half)
    throw new Stopped({ ...half, level: 'error', hint: 'Render it again, so that what is released is what was meant' });
  const former = formerRelease(output);
  const wishes = options.wave === undefined ? undefined : wishesOf(options.wave);
  const carried = options.endpoints === true && former ? carriedWaves(output, former) : undefined;
  progress('resolving nodes');
  const made = (at: Ordinal): Release => {
    const release = makeRelease(files, termsOf(options, at, wishes !== undefined || carried !== undefined));
    if ('serial' in release) return release;
    say(printProblems(release));
    throw new Stopped({ ...notReleased(spec), message: `Cannot release ${spec}: a node could not read it` });
  };
  const texts = (release: Release): ReleaseTexts => {
    const text = printRelease(release);
    const waves = wishes ? wavesText(options.wave ?? '', wishes, release) : fitting(carried, release);
    return { release: text, waves, sums: sumsOf(files, text, waves) };
  };
  const isThere = (one: Release): boolean => texts(one).sums === reading(output, () => readText(output, 'SHA256SUMS'));
  if (former === undefined && options.serial === 'auto') refuseRest(output);
  const release =
    options.endpoints === true
      ? decideRevision(former, made, isThere)
      : decideSerial(options.serial ?? 'auto', former, (serial) => made({ serial }), isThere);
  const written = texts(release);
  if (Object.values(written).some((text = '') => text.length > bundleLimits.fileBytesMax))
    throw new Stopped(tooLarge(spec));
  const done = writing(output, () => writeRelease(output, files, written));
  if (typeof done !== 'string') throw new Stopped(done);
  say(
    `${output}: ${nameOf(release)} of ${release.cluster}, ${files.size} files, ${Object.keys(release.nodes).length} nodes${done === 'same' ? ', as it was' : ''}\n`,
  );
  print(`${release.serial}\n`);
  return exitCodes.done;
}

/** What a release, or an update of its endpoints, is ordered by. */
interface Ordinal {
  readonly serial: number;
  readonly revision?: number;
}

const nameOf = ({ serial, revision }: Ordinal): string =>
  revision === undefined ? `release ${serial}` : `update ${revision} of release ${serial}`;

/**
 * Chooses the revision: one more than that of the output directory, or the same when nothing differs.
 * @throws Stopped when there is no release there to update, or another cluster's
 */
function decideRevision(
  former: Release | undefined,
  made: (at: Ordinal) => Release,
  isThere: (release: Release) => boolean,
): Release {
  if (former === undefined) throw new Stopped(nothingToUpdate);
  const { serial, revision = 0 } = former;
  const again = revision === 0 ? undefined : made({ serial, revision });
  if (again && isThere(again)) return again;
  const next = made({ serial, revision: revision + 1 });
  if (next.cluster !== former.cluster) throw new Stopped(otherCluster(former.cluster, next.cluster));
  return next;
}

const nothingToUpdate: Problem = {
  code: 'RELEASE_SERIAL',
  level: 'error',
  message: 'Cannot make an update of endpoints: the output directory holds no release',
  hint: 'Make the release first, with --serial; its updates go into the same directory',
};

/**
 * Chooses the serial. A serial is given once: the former release keeps its own when nothing differs, so running again changes nothing.
 * @param isThere whether the output already holds exactly this release
 * @throws Stopped when a serial was asked for that has been given
 */
function decideSerial(
  wanted: number | 'auto',
  former: Release | undefined,
  made: (serial: number) => Release,
  isThere: (release: Release) => boolean,
): Release {
  if (former === undefined) return made(wanted === 'auto' ? 1 : wanted);
  const again = made(former.serial);
  if ((wanted === 'auto' || wanted === former.serial) && isThere(again)) return again;
  if (again.cluster !== former.cluster) throw new Stopped(otherCluster(former.cluster, again.cluster));
  if (wanted === 'auto') return made(former.serial + 1);
  if (wanted > former.serial) return made(wanted);
  throw new Stopped({
    code: 'RELEASE_SERIAL',
    level: 'error',
    message: `Cannot give serial ${wanted}: the release in the output directory is ${former.serial}, with other content`,
    hint: 'Serials only grow, also to go back: give a greater one, or `--serial auto`',
  });
}

function termsOf({ source, expires }: ReleaseOptions, at: Ordinal, hasWaves: boolean): ReleaseTerms {
  return { ...at, source, hasWaves, ...(expires === undefined ? {} : { expires }) };
}

function wishesOf(file: string): readonly WaveWish[] {
  const wishes = readWishes(
    file,
    reading(file, () => readFileSync(file, 'utf8')),
  );
  if (isProblem(wishes)) throw new Stopped(wishes);
  return wishes;
}

function wavesText(file: string, wishes: readonly WaveWish[], { nodes }: Release): string {
  const waves = makeWaves(file, wishes, Object.keys(nodes).toSorted(compareText));
  if (isProblem(waves)) throw new Stopped(waves);
  return printWaves(waves);
}

/**
 * The waves of the release that is updated. Without them, an update that signers of releases sign would go to all nodes at once.
 * @returns undefined when it has none
 * @throws Stopped when it has some that cannot be read
 */
function carriedWaves(output: string, { requires }: Release): string | undefined {
  if (!requires.includes('waves')) return undefined;
  const text = reading(output, () => readText(output, wavesFile));
  if (text === undefined) throw new Stopped(wavesNotCarried('waves.yaml is not there'));
  const waves = readWaves(text);
  if (isProblem(waves)) throw new Stopped(waves);
  return text;
}

/** @throws Stopped when the waves are for other nodes than the update has */
function fitting(text: string | undefined, { nodes }: Release): string | undefined {
  const waves = text === undefined ? [] : readWaves(text);
  if (text === undefined || isProblem(waves)) return undefined;
  const wrong = unlikeWaves(waves, Object.keys(nodes));
  if (wrong !== undefined) throw new Stopped(wavesNotCarried(wrong));
  return text;
}

function wavesNotCarried(why: string): Problem {
  return {
    code: 'WAVES_INVALID',
    level: 'error',
    message: `Cannot take over the waves of the release that is updated: ${why}`,
    hint: 'Make a release instead, with `--serial auto --wave FILE`: an update of endpoints goes out in the waves of its release',
  };
}

/** The release that the output directory holds, of which only the serial and the cluster count. */
function formerRelease(output: string): Release | undefined {
  const text = reading(output, () => readText(output, releaseFile));
  if (text === undefined) return undefined;
  const release = readRelease(text);
  if (isProblem(release)) throw new Stopped(release);
  return release;
}

/** @throws Stopped when there was a release: a serial that was given must not be given again, and which ones were nobody knows */
function refuseRest(output: string): void {
  const rest = reading(output, () => (existsSync(output) ? readdirSync(output).find(isReleaseFile) : undefined));
  if (rest === undefined) return;
  throw new Stopped({
    code: 'RELEASE_SERIAL',
    level: 'error',
    message: `Cannot choose a serial: ${output} has ${rest}, which a release left there, and no ${releaseFile} that tells its serial`,
    hint: `Bring ${releaseFile} back, or give a serial that is greater than all before with --serial`,
  });
}

function isSamePlace(a: string, b: string): boolean {
  try {
    return realpathSync(a) === realpathSync(b);
  } catch {
    return false;
  }
}

function sameDirectory(output: string): Problem {
  const hint = 'Name another directory with -o: what is reviewed stays without digests and serials';
  return {
    code: 'OUTPUT_NOT_A_BUNDLE',
    level: 'error',
    message: `Cannot write the release to ${output}: it is made from it`,
    hint,
  };
}

function notReleased(spec: string): Problem {
  const hint = 'Render it again; `sluice ls` says which node is meant';
  return { code: 'BUNDLE_INVALID', level: 'error', message: `Cannot release ${spec}`, hint };
}

function otherCluster(former: string, now: string): Problem {
  const message = `Cannot write a release of cluster ${now} over one of cluster ${former}`;
  return {
    code: 'RELEASE_ELSEWHERE',
    level: 'error',
    message,
    hint: 'Name another output directory: serials are given for each cluster',
  };
}

function tooLarge(spec: string): Problem {
  const message = `Cannot release ${spec}: release.yaml or SHA256SUMS would be larger than ${bundleLimits.fileBytesMax} bytes`;
  return {
    code: 'INPUT_TOO_LARGE',
    level: 'error',
    message,
    hint: 'Split the cluster into bundles, one for each group of nodes',
  };
}
