import { document } from '@sluice/cli';
import { existsSync, readFileSync } from 'node:fs';
import { compareText, type Problem, refusal } from '@sluice/netfilter';
import {
  endpointsNamespace,
  expired,
  fileDigest,
  isProblem,
  makeRelease,
  onlyEndpoints,
  printRelease,
  readOpening,
  readRelease,
  readSigners,
  readWaves,
  type Release,
  type Signed,
  sumsMisfit,
  unreachable,
  wavesMismatch,
  unsigned,
  wavesFile,
} from '@sluice/bundle';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { readReleaseDirectory, type ReleaseDirectory } from '@sluice/renderer/load/release.ts';
import { orStop, reading, Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { print, progress, say } from '@sluice/renderer/commands/output/progress.ts';
import { sshKeygen, whoSigned } from '../evidence/ssh-keygen.ts';
import { reportProblems } from '@sluice/renderer/commands/output/output.ts';

interface VerifyOptions {
  readonly allowedSigners: string;
  readonly threshold: number;
  readonly output: 'text' | 'json';
}

/** The signers, when they reach the threshold; for an endpoint update one endpoint key is enough. */
interface VerifiedSigners extends Signed {
  readonly onlyEndpoints?: true;
}

/** `sluice verify`: checks a release as a node does, except for the node's name and the serial that it has accepted. */
export function verifyCommand(dir: string, options: VerifyOptions): number {
  const directory = orStop(reading(dir, () => readReleaseDirectory(dir)));
  progress(`checking the signatures of ${dir}`);
  const signed = verifySignatures(directory, options);
  const misfit = sumsMisfit(directory.sums, directory.digests);
  if (misfit !== undefined) throw new Stopped(invalid(`SHA256SUMS does not match the files: ${misfit}`));
  const release = orStop(readRelease(directory.release));
  if (signed.onlyEndpoints && release.revision === undefined)
    throw new Stopped(onlyEndpoints(`release ${release.serial} is not an endpoint update`));
  progress('resolving nodes');
  const wrong = [...wrongContent(release, directory), ...wrongWaves(release, directory)];
  if (wrong.length > 0) throw new Stopped(wrong);
  for (const why of signed.passedOver) say(`ignored: ${why}\n`);
  const late = expired(release, `${new Date().toISOString().slice(0, 19)}Z`);
  if (late) reportProblems([late]);
  print(options.output === 'json' ? json(release, signed, directory) : text(dir, release, signed, directory));
  return exitCodes.done;
}

function verifySignatures(directory: ReleaseDirectory, { allowedSigners, threshold }: VerifyOptions): VerifiedSigners {
  if (!existsSync(sshKeygen)) throw new Stopped(noTool);
  const signers = readSigners(
    allowedSigners,
    reading(allowedSigners, () => readFileSync(allowedSigners, 'utf8')),
  );
  if ('problems' in signers) throw new Stopped(signers.problems);
  const never = unreachable(allowedSigners, signers, threshold);
  if (never) throw new Stopped(never);
  const signed = whoSigned(directory.sums, directory.signatures, signers);
  const tooFew = unsigned(signed, threshold);
  if (!tooFew) return signed;
  const updaters = whoSigned(directory.sums, directory.signatures, signers, endpointsNamespace);
  if (updaters.principals.length === 0) throw new Stopped(tooFew);
  return { ...updaters, onlyEndpoints: true };
}

/** Checks release.yaml against the files. The directory may lack nodes and profiles; what is there must match. */
function wrongContent(release: Release, { files }: ReleaseDirectory): readonly Problem[] {
  const { serial, revision, source, expires } = release;
  const hasWaves = release.requires.includes('waves');
  const made = makeRelease(files, {
    serial,
    source,
    hasWaves,
    ...(revision === undefined ? {} : { revision }),
    ...(expires === undefined ? {} : { expires }),
  });
  if (!('serial' in made)) return made;
  if (made.cluster !== release.cluster)
    return [invalid(`release.yaml is for cluster ${release.cluster}, the files are for ${made.cluster}`)];
  const differs = [
    ...differing('node', made.nodes, release.nodes),
    ...differing('profile', made.profiles, release.profiles),
  ];
  if (differs.length > 0) return [invalid(`release.yaml and the files differ in ${differs.slice(0, 5).join(', ')}`)];
  const isWhole = Object.keys(made.nodes).length === Object.keys(release.nodes).length;
  return isWhole && printRelease(made) !== printRelease({ ...release, profiles: made.profiles })
    ? [invalid('release.yaml does not match the files')]
    : [];
}

/** Checks that every node of the release is in exactly one wave. */
function wrongWaves(release: Release, { waves: written }: ReleaseDirectory): readonly Problem[] {
  if (release.requires.includes('waves') !== (written !== undefined))
    return [invalid(`release.yaml and ${wavesFile} disagree on whether there are waves`)];
  const waves = written === undefined ? undefined : readWaves(written);
  if (waves === undefined) return [];
  if (isProblem(waves)) return [waves];
  const wrong = wavesMismatch(waves, Object.keys(release.nodes));
  return wrong === undefined ? [] : [invalid(wrong)];
}

function differing(
  kind: string,
  made: Readonly<Record<string, object>>,
  stated: Readonly<Record<string, object>>,
): readonly string[] {
  const same = (name: string): boolean => {
    const [a, b] = [made[name], stated[name]] as [object, object | undefined];
    return (
      b !== undefined &&
      Object.entries(a).every(([key, value]) => JSON.stringify(value) === JSON.stringify(b[key as keyof typeof b]))
    );
  };
  return Object.keys(made)
    .toSorted(compareText)
    .filter((name) => !same(name))
    .map((name) => `${kind} ${name}`);
}

/** The number of open waves, whose signature nodes verify; undefined for a release without waves. */
function openedOf({
  waves: written,
  opening: stated,
  sums,
}: ReleaseDirectory): { waves: number; open: number } | undefined {
  const waves = written === undefined ? undefined : readWaves(written);
  if (waves === undefined || isProblem(waves)) return undefined;
  const opening = stated === undefined ? undefined : readOpening(stated);
  const isOurs = opening !== undefined && !isProblem(opening) && opening.release === fileDigest(sums);
  return { waves: waves.length, open: isOurs ? Math.min(opening.open, waves.length) : 0 };
}

function text(
  dir: string,
  release: Release,
  { principals, onlyEndpoints: only }: VerifiedSigners,
  directory: ReleaseDirectory,
): string {
  const opened = openedOf(directory);
  const expires = release.expires === undefined ? 'never' : release.expires;
  const rows = [
    ['cluster', release.cluster],
    ['serial', String(release.serial)],
    ...(release.revision === undefined ? [] : ([['revision', String(release.revision)]] as const)),
    ['source', release.source],
    ['expires', expires],
    ['nodes', String(Object.keys(release.nodes).length)],
    ['signed by', `${principals.join(', ')}${only ? ' (endpoints only)' : ''}`],
    ...(opened ? ([['waves', `${opened.open} of ${opened.waves} open`]] as const) : []),
  ] as const;
  return `${dir}: good\n${rows.map(([name, value]) => `  ${name.padEnd(10)}${value}\n`).join('')}`;
}

function json(
  release: Release,
  { principals, passedOver, onlyEndpoints: only }: VerifiedSigners,
  directory: ReleaseDirectory,
): string {
  const opened = openedOf(directory);
  return document('VerifiedRelease', {
    ...release,
    signers: principals,
    ...(only ? { onlyEndpoints: only } : {}),
    passedOver,
    ...(opened ? { waves: opened } : {}),
  });
}

const invalid = (why: string): Problem =>
  refusal(
    'RELEASE_INVALID',
    `Cannot trust the release: ${why}`,
    'Fetch the release again; if that does not help, make it again and find out what changed it',
  );

const noTool = refusal(
  'INPUT_UNREADABLE',
  `Cannot check signatures: ${sshKeygen} is not installed`,
  'Install the OpenSSH client (Debian: openssh-client)',
);
