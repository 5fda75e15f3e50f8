import { existsSync } from 'node:fs';
import {
  type BundleFiles,
  bundleLimits,
  isProblem,
  makeRelease,
  newlyRequired,
  printRelease,
  readRelease,
  type Release,
  releaseFile,
  releaseLimits,
  type ReleaseTerms,
  sumsOf,
} from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import type { Format } from '@sluice/cli';
import { type ReleaseTexts, writeRelease } from '../../emit/release.ts';
import { exitCodes } from '../../exit.ts';
import { readText } from '../../load/tree.ts';
import { bundleAt } from '../bundle/bundle-at.ts';
import { incomplete } from '../bundle/complete.ts';
import { nameOf, type Ordinal } from '../evidence/ordinal.ts';
import { Stopped, writing } from '../failure/failure.ts';
import { print, progress, say } from '../output/progress.ts';
import { printDocument, reportProblems } from '../output/output.ts';
import { type Candidate, decideRelease } from './decide.ts';
import { type FoundRelease, readFound, refuseRest, refuseReviewed } from './output.ts';
import { readWavesFor } from './waves.ts';

interface ReleaseOptions {
  /** Absent for an endpoint update. */
  readonly serial?: number | 'auto';
  /** Make an endpoint update of the release in the output directory. */
  readonly endpoints?: boolean;
  readonly source: string;
  readonly expires?: string;
  readonly urgent?: boolean;
  readonly acceptRemoval?: boolean;
  /** A file with the waves. */
  readonly wave?: string;
  readonly output: string;
  readonly report: Format;
}

/** `sluice release`: writes a bundle with release.yaml and SHA256SUMS. The same arguments give the same bytes. */
export function releaseCommand(spec: string, options: ReleaseOptions): number {
  const { output, serial = 'auto', endpoints = false } = options;
  refuseReviewed(spec, output);
  progress(`reading ${spec}`);
  const files = completeBundle(spec);
  const found = readFound(output);
  const waves = readWavesFor(output, options.wave, endpoints ? found.previous : undefined);
  if (found.previous === undefined && options.serial === 'auto') refuseRest(output);
  progress('resolving nodes');
  const candidate = decideRelease(endpoints ? 'endpoints' : serial, found, (at) => {
    const release = makeOrStop(spec, files, termsOf(options, at, waves !== undefined));
    return { release, texts: textsOf(files, release, waves?.(release)) };
  });
  refuseUnreadable(spec, candidate.texts);
  reportProblems(needsSluiced(candidate.release, found.previous));
  const isSame = write(output, files, candidate, found);
  report(options, files, candidate.release, isSame);
  return exitCodes.done;
}

function completeBundle(spec: string): BundleFiles {
  const files = bundleAt(spec);
  const problem = existsSync(spec) ? incomplete(spec, files)[0] : undefined;
  if (problem) throw new Stopped({ ...problem, level: 'error', hint: 'Render the bundle again before releasing it' });
  return files;
}

function termsOf(
  { source, expires, urgent = false, acceptRemoval = false }: ReleaseOptions,
  at: Ordinal,
  hasWaves: boolean,
): ReleaseTerms {
  const said = { isUrgent: urgent, acceptsRemoval: acceptRemoval };
  return { ...at, source, hasWaves, ...said, ...(expires === undefined ? {} : { expires }) };
}

/** @throws Stopped when a node could not read the bundle */
function makeOrStop(spec: string, files: BundleFiles, terms: ReleaseTerms): Release {
  const release = makeRelease(files, terms);
  if ('serial' in release) return release;
  reportProblems(release);
  throw new Stopped({ ...notReleased(spec), message: `Cannot release ${spec}: nodes could not read it` });
}

function textsOf(files: BundleFiles, release: Release, waves: string | undefined): ReleaseTexts {
  const text = printRelease(release);
  return { release: text, waves, sums: sumsOf(files, text, waves) };
}

/**
 * Writes the files, unless another release was written there in the meantime.
 * @returns whether they were all there
 */
function write(output: string, files: BundleFiles, { release, texts }: Candidate, { text }: FoundRelease): boolean {
  const objection = (): Problem | undefined =>
    readText(output, releaseFile) === text ? undefined : meanwhile(output, release);
  const done = writing(output, () => writeRelease(output, files, texts, objection));
  if (typeof done !== 'string') throw new Stopped(done);
  return done === 'same';
}

function report({ output, report: format }: ReleaseOptions, files: BundleFiles, release: Release, same: boolean): void {
  const { serial, revision = null, cluster, source } = release;
  const nodes = Object.keys(release.nodes).length;
  say(`${output}: ${nameOf(release)} of ${cluster}, ${files.size} files, ${nodes} nodes${same ? ', unchanged' : ''}\n`);
  if (format === 'text') print(`${serial}\n`);
  printDocument(format, 'ReleaseResult', { output, cluster, serial, revision, source, nodes, same });
}

/** @throws Stopped when readers would refuse the release because of a limit */
function refuseUnreadable(spec: string, texts: ReleaseTexts): void {
  if (Object.values(texts).some((text = '') => text.length > bundleLimits.fileBytesMax))
    throw new Stopped(tooLarge(spec));
  const unread = readRelease(texts.release);
  if (isProblem(unread)) throw new Stopped(beyondLimits(spec, unread));
}

/** A warning about nodes that do not support what the release requires. */
function needsSluiced(release: Release, previous: Release | undefined): readonly Problem[] {
  const features = newlyRequired(release, previous);
  if (features.length === 0) return [];
  const unlike = previous ? `, unlike ${nameOf(previous)}` : '';
  return [
    {
      code: 'RELEASE_NEEDS_SLUICED',
      level: 'warning',
      message: `${capital(nameOf(release))} requires ${features.join(', ')}${unlike}: a sluiced of an older version refuses it, and keeps its rules`,
      hint: 'Upgrade sluiced on all nodes first; `sluiced version` prints the version of a node',
    },
  ];
}

const capital = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}`;

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

function tooLarge(spec: string): Problem {
  const message = `Cannot release ${spec}: release.yaml or SHA256SUMS would be larger than ${bundleLimits.fileBytesMax} bytes`;
  return {
    code: 'INPUT_TOO_LARGE',
    level: 'error',
    message,
    hint: 'Split the cluster into one bundle per group of nodes',
  };
}
