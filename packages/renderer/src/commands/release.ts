import { existsSync, readFileSync } from 'node:fs';
import {
  bundleLimits,
  compareText,
  isProblem,
  makeRelease,
  makeWaves,
  printRelease,
  printWaves,
  type Problem,
  readRelease,
  readWaves,
  readWaveSpecs,
  type Release,
  releaseFile,
  releaseLimits,
  type ReleaseTerms,
  sumsFile,
  sumsOf,
  wavesMismatch,
  wavesFile,
  type WaveSpec,
} from '@sluice/bundle';
import type { Format } from '@sluice/cli';
import { begunFile, begunText, type ReleaseTexts, writeRelease } from '../emit/release.ts';
import { exitCodes } from '../exit.ts';
import { readText } from '../load/tree.ts';
import { bundleAt } from './bundle-at.ts';
import { incomplete } from './complete.ts';
import { reading, Stopped, writing } from './failure.ts';
import { print, progress, say } from './progress.ts';
import { isHalfWritten, refuseRest, refuseReviewed } from './release-output.ts';
import { printDocument, tellProblems } from './told.ts';

export interface ReleaseOptions {
  /** Left out for an update of endpoints. */
  readonly serial?: number | 'auto';
  /** An update of endpoints of the release that the output directory holds. */
  readonly endpoints?: boolean;
  readonly source: string;
  readonly expires?: string;
  readonly urgent?: boolean;
  /** A file with the waves. */
  readonly wave?: string;
  readonly output: string;
  readonly report: Format;
}

/** `sluice release`: a bundle with what it is, and one file that covers all of it. The same arguments give the same bytes. */
export function releaseCommand(spec: string, options: ReleaseOptions): number {
  const { output } = options;
  refuseReviewed(spec, output);
  progress(`reading ${spec}`);
  const files = bundleAt(spec);
  const half = existsSync(spec) ? incomplete(spec, files)[0] : undefined;
  if (half)
    throw new Stopped({ ...half, level: 'error', hint: 'Render it again, so that what is released is what was meant' });
  const before = reading(output, () => readText(output, releaseFile));
  const former = before === undefined ? undefined : formerRelease(before);
  const wishes = options.wave === undefined ? undefined : wishesOf(options.wave);
  const carried = options.endpoints === true && former ? carriedWaves(output, former) : undefined;
  progress('resolving nodes');
  const made = (at: Ordinal): Release => {
    const release = makeRelease(files, termsOf(options, at, wishes !== undefined || carried !== undefined));
    if ('serial' in release) return release;
    tellProblems(release);
    throw new Stopped({ ...notReleased(spec), message: `Cannot release ${spec}: a node could not read it` });
  };
  const texts = (release: Release): ReleaseTexts => {
    const text = printRelease(release);
    const waves = wishes ? wavesText(options.wave ?? '', wishes, release) : fitting(carried, release);
    return { release: text, waves, sums: sumsOf(files, text, waves) };
  };
  const sumsThere = reading(output, () => readText(output, sumsFile));
  const begun = reading(output, () => readText(output, begunFile));
  const isThere = (one: Release): boolean => {
    const { sums } = texts(one);
    return sums === sumsThere || begunText(sums) === begun;
  };
  if (former === undefined && options.serial === 'auto') refuseRest(output);
  // Nobody has that release yet, and no node takes an update of what it has not taken.
  const isHalf = before !== undefined && isHalfWritten(before, sumsThere, begun);
  if (options.endpoints === true && isHalf && former?.revision === undefined)
    throw new Stopped(nothingToUpdate('the release in the output directory was not written to its end'));
  const release =
    options.endpoints === true
      ? decideRevision(former, made, isThere)
      : decideSerial(options.serial ?? 'auto', former, (serial) => made({ serial }), isThere);
  const written = texts(release);
  refuseUnreadable(spec, written);
  const objection = (): Problem | undefined =>
    readText(output, releaseFile) === before ? undefined : meanwhile(output, release);
  const done = writing(output, () => writeRelease(output, files, written, objection));
  if (typeof done !== 'string') throw new Stopped(done);
  say(
    `${output}: ${nameOf(release)} of ${release.cluster}, ${files.size} files, ${Object.keys(release.nodes).length} nodes${done === 'same' ? ', as it was' : ''}\n`,
  );
  if (options.report === 'text') print(`${release.serial}\n`);
  const { serial, revision = null, cluster, source, nodes } = release;
  const fields = { output, cluster, serial, revision, source, nodes: Object.keys(nodes).length, same: done === 'same' };
  printDocument(options.report, 'ReleaseResult', fields);
  return exitCodes.done;
}

/** What a release, or an update of its endpoints, is ordered by. */
interface Ordinal {
  readonly serial: number;
  readonly revision?: number;
}

/** How people call it. */
export const nameOf = ({ serial, revision }: Ordinal): string =>
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
  if (former === undefined) throw new Stopped(nothingToUpdate('the output directory holds no release'));
  const { serial, revision = 0 } = former;
  const again = revision === 0 ? undefined : made({ serial, revision });
  if (again && isThere(again)) return again;
  const next = made({ serial, revision: revision + 1 });
  if (next.cluster !== former.cluster) throw new Stopped(otherCluster(former.cluster, next.cluster));
  return next;
}

function nothingToUpdate(why: string): Problem {
  return {
    code: 'RELEASE_SERIAL',
    level: 'error',
    message: `Cannot make an update of endpoints: ${why}`,
    hint: 'Make the release first, with --serial; its updates go into the same directory',
  };
}

/**
 * Chooses the serial. A serial is given once: the former release keeps its own when nothing differs, so running again changes nothing.
 * @param isThere whether the output already holds exactly this release, or is to hold it
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

function termsOf({ source, expires, urgent = false }: ReleaseOptions, at: Ordinal, hasWaves: boolean): ReleaseTerms {
  return { ...at, source, hasWaves, isUrgent: urgent, ...(expires === undefined ? {} : { expires }) };
}

function wishesOf(file: string): readonly WaveSpec[] {
  const wishes = readWaveSpecs(
    file,
    reading(file, () => readFileSync(file, 'utf8')),
  );
  if (isProblem(wishes)) throw new Stopped(wishes);
  return wishes;
}

function wavesText(file: string, wishes: readonly WaveSpec[], { nodes }: Release): string {
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
  const wrong = wavesMismatch(waves, Object.keys(nodes));
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
function formerRelease(text: string): Release {
  const release = readRelease(text);
  if (isProblem(release)) throw new Stopped(release);
  return release;
}

/** @throws Stopped where no reader would take what is about to be written */
function refuseUnreadable(spec: string, texts: ReleaseTexts): void {
  if (Object.values(texts).some((text = '') => text.length > bundleLimits.fileBytesMax))
    throw new Stopped(tooLarge(spec));
  const unread = readRelease(texts.release);
  if (isProblem(unread)) throw new Stopped(beyondLimits(spec, unread));
}

function meanwhile(output: string, release: Release): Problem {
  return {
    code: 'RELEASE_SERIAL',
    level: 'error',
    message: `Cannot write ${nameOf(release)} to ${output}: another release was written there meanwhile`,
    hint: 'Run the same command again: it goes on from that one',
  };
}

function beyondLimits(spec: string, { message }: Problem): Problem {
  return {
    code: 'RELEASE_SERIAL',
    level: 'error',
    message: `Cannot release ${spec}: nobody could read what would be written. ${message}`,
    hint: `Serials and revisions end at ${releaseLimits.serialMax}; where one was too great by mistake, bring the ${releaseFile} before it back`,
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
