import { existsSync, readFileSync } from 'node:fs';
import {
  bundleLimits,
  isProblem,
  makeRelease,
  makeWaves,
  printRelease,
  printWaves,
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
import { compareText, type Problem } from '@sluice/netfilter';
import type { Format } from '@sluice/cli';
import { begunFile, begunText, type ReleaseTexts, writeRelease } from '../../emit/release.ts';
import { exitCodes } from '../../exit.ts';
import { readText } from '../../load/tree.ts';
import { bundleAt } from '../bundle/bundle-at.ts';
import { incomplete } from '../bundle/complete.ts';
import { nameOf, type Ordinal } from '../evidence/ordinal.ts';
import { reading, Stopped, writing } from '../failure/failure.ts';
import { print, progress, say } from '../output/progress.ts';
import { isHalfWritten, refuseRest, refuseReviewed } from './output.ts';
import { printDocument, reportProblems } from '../output/output.ts';

export interface ReleaseOptions {
  /** Absent for an endpoint update. */
  readonly serial?: number | 'auto';
  /** Make an endpoint update of the release in the output directory. */
  readonly endpoints?: boolean;
  readonly source: string;
  readonly expires?: string;
  readonly urgent?: boolean;
  /** A file with the waves. */
  readonly wave?: string;
  readonly output: string;
  readonly report: Format;
}

/** `sluice release`: writes a bundle with release.yaml and SHA256SUMS. The same arguments give the same bytes. */
export function releaseCommand(spec: string, options: ReleaseOptions): number {
  const { output } = options;
  refuseReviewed(spec, output);
  progress(`reading ${spec}`);
  const files = bundleAt(spec);
  const incompleteBundle = existsSync(spec) ? incomplete(spec, files)[0] : undefined;
  if (incompleteBundle)
    throw new Stopped({ ...incompleteBundle, level: 'error', hint: 'Render the bundle again before releasing it' });
  const before = reading(output, () => readText(output, releaseFile));
  const previous = before === undefined ? undefined : readPreviousRelease(before);
  const wishes = options.wave === undefined ? undefined : wishesOf(options.wave);
  const carriedOver = options.endpoints === true && previous ? wavesToCarryOver(output, previous) : undefined;
  progress('resolving nodes');
  const releaseAt = (at: Ordinal): Release => {
    const release = makeRelease(files, termsOf(options, at, wishes !== undefined || carriedOver !== undefined));
    if ('serial' in release) return release;
    reportProblems(release);
    throw new Stopped({ ...notReleased(spec), message: `Cannot release ${spec}: nodes could not read it` });
  };
  const textsOf = (release: Release): ReleaseTexts => {
    const text = printRelease(release);
    const waves = wishes ? wavesText(options.wave ?? '', wishes, release) : fitting(carriedOver, release);
    return { release: text, waves, sums: sumsOf(files, text, waves) };
  };
  const sumsThere = reading(output, () => readText(output, sumsFile));
  const begun = reading(output, () => readText(output, begunFile));
  const isThere = (one: Release): boolean => {
    const { sums } = textsOf(one);
    return sums === sumsThere || begunText(sums) === begun;
  };
  if (previous === undefined && options.serial === 'auto') refuseRest(output);
  // An interrupted release was never published, and nodes refuse an update of a release that they do not have.
  const isHalf = before !== undefined && isHalfWritten(before, sumsThere, begun);
  if (options.endpoints === true && isHalf && previous?.revision === undefined)
    throw new Stopped(nothingToUpdate('the release in the output directory is incomplete'));
  const release =
    options.endpoints === true
      ? decideRevision(previous, releaseAt, isThere)
      : decideSerial(options.serial ?? 'auto', previous, (serial) => releaseAt({ serial }), isThere);
  const written = textsOf(release);
  refuseUnreadable(spec, written);
  const objection = (): Problem | undefined =>
    readText(output, releaseFile) === before ? undefined : meanwhile(output, release);
  const done = writing(output, () => writeRelease(output, files, written, objection));
  if (typeof done !== 'string') throw new Stopped(done);
  say(
    `${output}: ${nameOf(release)} of ${release.cluster}, ${files.size} files, ${Object.keys(release.nodes).length} nodes${done === 'same' ? ', unchanged' : ''}\n`,
  );
  if (options.report === 'text') print(`${release.serial}\n`);
  const { serial, revision = null, cluster, source, nodes } = release;
  const fields = { output, cluster, serial, revision, source, nodes: Object.keys(nodes).length, same: done === 'same' };
  printDocument(options.report, 'ReleaseResult', fields);
  return exitCodes.done;
}

/**
 * Chooses the revision: that of the output directory plus one, or the same when nothing changed.
 * @throws Stopped when the output directory has no release, or one of another cluster
 */
function decideRevision(
  previous: Release | undefined,
  releaseAt: (at: Ordinal) => Release,
  isThere: (release: Release) => boolean,
): Release {
  if (previous === undefined) throw new Stopped(nothingToUpdate('the output directory contains no release'));
  const { serial, revision = 0 } = previous;
  const again = revision === 0 ? undefined : releaseAt({ serial, revision });
  if (again && isThere(again)) return again;
  const next = releaseAt({ serial, revision: revision + 1 });
  if (next.cluster !== previous.cluster) throw new Stopped(otherCluster(previous.cluster, next.cluster));
  return next;
}

function nothingToUpdate(why: string): Problem {
  return {
    code: 'RELEASE_SERIAL',
    level: 'error',
    message: `Cannot make an endpoint update: ${why}`,
    hint: 'Make the release first, with --serial; write its updates to the same directory',
  };
}

/**
 * Chooses the serial. A serial is never reused; without changes the release keeps its serial, so running the command again is a no-op.
 * @param isThere whether the output contains exactly this release, or its interrupted write
 * @throws Stopped when the requested serial is already in use
 */
function decideSerial(
  wanted: number | 'auto',
  previous: Release | undefined,
  releaseAt: (serial: number) => Release,
  isThere: (release: Release) => boolean,
): Release {
  if (previous === undefined) return releaseAt(wanted === 'auto' ? 1 : wanted);
  const again = releaseAt(previous.serial);
  if ((wanted === 'auto' || wanted === previous.serial) && isThere(again)) return again;
  if (again.cluster !== previous.cluster) throw new Stopped(otherCluster(previous.cluster, again.cluster));
  if (wanted === 'auto') return releaseAt(previous.serial + 1);
  if (wanted > previous.serial) return releaseAt(wanted);
  throw new Stopped({
    code: 'RELEASE_SERIAL',
    level: 'error',
    message: `Cannot use serial ${wanted}: the output directory contains release ${previous.serial} with other content`,
    hint: 'Serials must increase, also for a rollback: pass a greater one, or `--serial auto`',
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
 * Reads the waves of the release to update. Without them, an update signed by a release key would go to all nodes at once.
 * @returns undefined when the release has no waves
 * @throws Stopped when the waves cannot be read
 */
function wavesToCarryOver(output: string, { requires }: Release): string | undefined {
  if (!requires.includes('waves')) return undefined;
  const text = reading(output, () => readText(output, wavesFile));
  if (text === undefined) throw new Stopped(wavesNotCarried('waves.yaml is missing'));
  const waves = readWaves(text);
  if (isProblem(waves)) throw new Stopped(waves);
  return text;
}

/** @throws Stopped when the nodes of the waves are not the nodes of the update */
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
    message: `Cannot take over the waves of the updated release: ${why}`,
    hint: 'Make a release instead, with `--serial auto --wave FILE`: an endpoint update uses the waves of its release',
  };
}

/** Parses release.yaml of the output directory. */
function readPreviousRelease(text: string): Release {
  const release = readRelease(text);
  if (isProblem(release)) throw new Stopped(release);
  return release;
}

/** @throws Stopped when readers would refuse the release because of a limit */
function refuseUnreadable(spec: string, textsOf: ReleaseTexts): void {
  if (Object.values(textsOf).some((text = '') => text.length > bundleLimits.fileBytesMax))
    throw new Stopped(tooLarge(spec));
  const unread = readRelease(textsOf.release);
  if (isProblem(unread)) throw new Stopped(beyondLimits(spec, unread));
}

function meanwhile(output: string, release: Release): Problem {
  return {
    code: 'RELEASE_SERIAL',
    level: 'error',
    message: `Cannot write ${nameOf(release)} to ${output}: another release was written there in the meantime`,
    hint: 'Run the same command again: it continues from that release',
  };
}

function beyondLimits(spec: string, { message }: Problem): Problem {
  return {
    code: 'RELEASE_SERIAL',
    level: 'error',
    message: `Cannot release ${spec}: readers would refuse it. ${message}`,
    hint: `Serials and revisions end at ${releaseLimits.serialMax}; if one was too great by mistake, restore the previous ${releaseFile}`,
  };
}

function notReleased(spec: string): Problem {
  const hint = 'Render the bundle again; `sluice ls` shows the node';
  return { code: 'BUNDLE_INVALID', level: 'error', message: `Cannot release ${spec}`, hint };
}

function otherCluster(previous: string, now: string): Problem {
  const message = `Cannot write a release of cluster ${now} over one of cluster ${previous}`;
  return {
    code: 'RELEASE_ELSEWHERE',
    level: 'error',
    message,
    hint: 'Choose another output directory: each cluster has its own serials',
  };
}

function tooLarge(spec: string): Problem {
  const message = `Cannot release ${spec}: release.yaml or SHA256SUMS would be larger than ${bundleLimits.fileBytesMax} bytes`;
  return {
    code: 'INPUT_TOO_LARGE',
    level: 'error',
    message,
    hint: 'Split the cluster into one bundle per group of nodes',
  };
}
