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
import type { Format } from '@sluice/cli';
import { type Problem, refusal, warning } from '@sluice/netfilter';
import { type ReleaseTexts, writeRelease } from '../../emit/release.ts';
import { capital } from '@sluice/renderer/emit/html.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { readText } from '@sluice/renderer/load/tree.ts';
import { bundleAt } from '@sluice/renderer/commands/bundle/bundle-at.ts';
import { incomplete } from '@sluice/renderer/commands/bundle/complete.ts';
import { nameOf, type Ordinal } from '../evidence/ordinal.ts';
import { orStop, Stopped, writing } from '@sluice/renderer/commands/failure/failure.ts';
import { printDocument, reportProblems } from '@sluice/renderer/commands/output/output.ts';
import { print, progress, say } from '@sluice/renderer/commands/output/progress.ts';
import { type FoundRelease, readFound, refuseRest, refuseReviewed } from './output.ts';
import { readWavesFor, type ReleaseWaves, wavesText } from './waves.ts';

/** A release with the texts of its files. */
interface Candidate {
  readonly release: Release;
  readonly texts: ReleaseTexts;
  readonly waves: ReleaseWaves | undefined;
}

/**
 * Chooses which release to write, from what the output directory holds: its serial, or the revision of an endpoint update.
 * @param wanted a serial; `endpoints`: an update of the release in the output directory
 * @param candidateAt makes the release with a serial and revision
 * @throws Stopped when that serial is in use, or when there is nothing to update
 */
function decideRelease(
  wanted: number | 'auto' | 'endpoints',
  found: FoundRelease,
  candidateAt: (at: Ordinal) => Candidate,
): Candidate {
  return wanted === 'endpoints' ? decideRevision(found, candidateAt) : decideSerial(wanted, found, candidateAt);
}

/**
 * Chooses the revision: that of the output directory plus one, or the same when nothing changed.
 * @throws Stopped when the output directory has no release, or one of another cluster
 */
function decideRevision(found: FoundRelease, candidateAt: (at: Ordinal) => Candidate): Candidate {
  const { previous } = found;
  // An interrupted release was never published, and nodes refuse an update of a release that they do not have.
  if (found.isHalfWritten && previous?.revision === undefined)
    throw new Stopped(nothingToUpdate('the release in the output directory is incomplete'));
  if (previous === undefined) throw new Stopped(nothingToUpdate('the output directory contains no release'));
  const { serial, revision = 0 } = previous;
  const again = revision === 0 ? undefined : candidateAt({ serial, revision });
  if (again && found.holds(again.texts)) return again;
  const next = candidateAt({ serial, revision: revision + 1 });
  refuseOtherCluster(previous, next);
  return next;
}

const nothingToUpdate = (why: string): Problem =>
  refusal(
    'RELEASE_SERIAL',
    `Cannot make an endpoint update: ${why}`,
    'Make the release first, with --serial; write its updates to the same directory',
  );

/**
 * Chooses the serial. A serial is never reused; without changes the release keeps its serial, so running the command again is a no-op.
 * @throws Stopped when the requested serial is already in use
 */
function decideSerial(
  wanted: number | 'auto',
  found: FoundRelease,
  candidateAt: (at: Ordinal) => Candidate,
): Candidate {
  const { previous } = found;
  if (previous === undefined) return candidateAt({ serial: wanted === 'auto' ? 1 : wanted });
  const again = candidateAt({ serial: previous.serial });
  if ((wanted === 'auto' || wanted === previous.serial) && found.holds(again.texts)) return again;
  refuseOtherCluster(previous, again);
  if (wanted === 'auto') return candidateAt({ serial: previous.serial + 1 });
  if (wanted > previous.serial) return candidateAt({ serial: wanted });
  throw new Stopped({
    code: 'RELEASE_SERIAL',
    level: 'error',
    message: `Cannot use serial ${wanted}: the output directory contains release ${previous.serial} with other content`,
    hint: 'Serials must increase, also for a rollback: pass a greater one, or `--serial auto`',
  });
}

function refuseOtherCluster({ cluster: previous }: Release, { release: { cluster } }: Candidate): void {
  if (cluster !== previous) throw new Stopped(otherCluster(previous, cluster));
}

function otherCluster(previous: string, now: string): Problem {
  const message = `Cannot write a release of cluster ${now} over one of cluster ${previous}`;
  return refusal('RELEASE_ELSEWHERE', message, 'Choose another output directory: each cluster has its own serials');
}

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
  /** A file with the Nodes, for waves by label. */
  readonly nodes?: string;
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
  const waves = readWavesFor(options, files, endpoints ? found.previous : undefined);
  const isFirst = found.previous === undefined && options.serial === 'auto';
  if (isFirst) refuseRest(output);
  progress('resolving nodes');
  const candidate = decideRelease(endpoints ? 'endpoints' : serial, found, (at) => {
    const release = makeOrStop(spec, files, termsOf(options, at, waves !== undefined));
    const its = waves?.(release);
    return { release, texts: textsOf(files, release, its?.text), waves: its };
  });
  refuseUnreadable(spec, candidate.texts);
  reportProblems(needsSluiced(candidate.release, found.previous));
  const isSame = write(output, files, candidate, found);
  if (isFirst) say(firstNote(output));
  report(options, files, candidate, isSame);
  return exitCodes.done;
}

/** A new directory, as in a pipeline without a cache, knows nothing of releases that nodes have. */
const firstNote = (output: string): string =>
  `note: ${output} has no release, so serials begin at 1\n    Nodes refuse a serial that is not above their own: where they have a release, pass -o with its directory, or a greater --serial\n`;

function completeBundle(spec: string): BundleFiles {
  const files = bundleAt(spec);
  const [problem] = incomplete(spec, files);
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
  const done = orStop(writing(output, () => writeRelease(output, files, texts, objection)));
  return done === 'same';
}

function report(
  { output, report: format }: ReleaseOptions,
  files: BundleFiles,
  { release, waves = { text: '', waves: [] } }: Candidate,
  same: boolean,
): void {
  const { serial, revision = null, cluster, source } = release;
  const nodes = Object.keys(release.nodes).length;
  say(`${output}: ${nameOf(release)} of ${cluster}, ${files.size} files, ${nodes} nodes${same ? ', unchanged' : ''}\n`);
  say(wavesText(waves));
  if (format === 'text') print(`${serial}\n`);
  const counted = waves.waves.map((wave) => ({ ...wave, nodes: wave.nodes.length }));
  printDocument(format, 'ReleaseResult', { output, cluster, serial, revision, source, nodes, same, waves: counted });
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
    warning(
      'RELEASE_NEEDS_SLUICED',
      `${capital(nameOf(release))} requires ${features.join(', ')}${unlike}: a sluiced of an older version refuses it, and keeps its rules`,
      'Upgrade sluiced on all nodes first; `sluiced version` prints the version of a node',
    ),
  ];
}

const meanwhile = (output: string, release: Release): Problem =>
  refusal(
    'RELEASE_SERIAL',
    `Cannot write ${nameOf(release)} to ${output}: another release was written there in the meantime`,
    'Run the same command again: it continues from that release',
  );

const beyondLimits = (spec: string, { message }: Problem): Problem =>
  refusal(
    'RELEASE_SERIAL',
    `Cannot release ${spec}: readers would refuse it. ${message}`,
    `Serials and revisions end at ${releaseLimits.serialMax}; if one was too great by mistake, restore the previous ${releaseFile}`,
  );

function notReleased(spec: string): Problem {
  const hint = 'Render the bundle again; `sluice ls` shows the node';
  return { code: 'BUNDLE_INVALID', level: 'error', message: `Cannot release ${spec}`, hint };
}

function tooLarge(spec: string): Problem {
  const message = `Cannot release ${spec}: release.yaml or SHA256SUMS would be larger than ${bundleLimits.fileBytesMax} bytes`;
  return refusal('INPUT_TOO_LARGE', message, 'Split the cluster into one bundle per group of nodes');
}
