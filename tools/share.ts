/**
 * `./dev share`: the part of `--all` that CI runs besides `./dev test`, at most a quarter of an hour. First the files that guard the
 * touched paths, then a rotation: each landing advances `test/landing`, and eight landings cover every file.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { compareText } from '@sluice/netfilter';
import { emulatedBooter, userModeBooter } from '../test/vm/where.ts';
import { knownSeconds } from './longest-first.ts';
import { hasTurns, projectNames, type TestFile, testFiles } from './selection.ts';

/** A file of which `--all` runs more than `./dev test`. */
export interface Piece {
  readonly path: string;
  /** On two idle processors, as measured by `./dev test --all --profile`. */
  readonly seconds: number;
  readonly isAlone: boolean;
}

/** The files to run, by reason, and those beyond the time budget. */
export interface Share {
  readonly guards: readonly Piece[];
  readonly rotation: readonly Piece[];
  readonly left: readonly Piece[];
}

export const landingsPerRound = 8;
/** For guards and rotation, as the durations of their files were measured. */
const usualBudgetSeconds = 12 * 60;
/** For a file that has not been measured yet. */
const usualSeconds = 60;

/** Touched paths → prefixes of the test files that guard them, the most relevant first. */
const guards: readonly (readonly [touched: RegExp, files: readonly string[]])[] = [
  [/^packages\/(renderer\/src\/(render|load)|netfilter\/src)\/|^test\/parity\//, ['test/parity/parity']],
  [
    /^packages\/applier\/src\/(apply|kernel|state)\//,
    [
      'test/netns/upgrade',
      'test/faults/',
      'test/netns/switch-',
      'test/netns/sluiced-',
      'test/netns/rehearsal-node',
      'test/netns/boot',
      'test/netns/drift',
      'test/netns/takeover',
      'test/netns/removal',
    ],
  ],
  [/^packages\/review\/src\/prove\//, ['test/parity/declared']],
  [/^packages\/(applier\/src\/inbox|bundle\/src\/(release|archive))\//, ['test/fuzz/', 'test/netns/release']],
  [/^packages\/netfilter\/src\//, ['test/netns/upgrade', 'test/netns/traffic', 'test/netns/switch-traffic']],
  [
    /^packages\/applier\/src\/move\//,
    ['test/package/systemd-adopt', 'test/netns/adopt', 'test/parity/adopt', 'test/faults/adopt'],
  ],
  [
    /^packages\/applier\/src\/diagnose\/|^packages\/netfilter\/src\/(diagnosis|live)\//,
    ['test/field/', 'test/doctor/'],
  ],
  [/^packages\/renderer\/src\/(commands\/watch|cluster)\//, ['test/netns/watch', 'test/cluster/']],
  [/^integrations\/(prometheus|grafana)\/|^packages\/applier\/src\/observe\/status\//, ['test/monitoring/']],
  [/^integrations\/(argocd|flux)\//, ['test/deploy/gitops']],
  [/^deploy\/mover\.yaml$/, ['test/parity/adopt-daemonset']],
  [/^deploy\//, ['test/deploy/', 'test/package/pod', 'test/package/chart']],
  [/^docs\/in-place-of-kube-proxy\.md$/, ['test/conformance/operations/installed']],
  [/ipvs/, ['test/vm/inside/']],
  [/^docs\/runbooks\/|^test\/runbooks\//, ['test/runbooks/runbooks']],
  [/^docs\/|^tools\/docs\//, ['test/docs/', 'test/runbooks/tutorial']],
  [/^(packages\/applier\/systemd|packaging|tools\/package)\//, ['test/package/']],
];

/**
 * Selects first the guards of the touched paths, then the rotation of this landing, within the time budget.
 * @param touched paths below the checkout that the change adds, changes or removes
 * @param landing the number in `test/landing`
 * @param budgetSeconds the time budget, of which more than the usual is not used
 */
export function shareOf(
  pool: readonly Piece[],
  touched: readonly string[],
  landing: number,
  budgetSeconds = usualBudgetSeconds,
): Share {
  const wanted = guards.filter(([paths]) => touched.some((path) => paths.test(path))).flatMap(([, files]) => files);
  const rankOf = ({ path }: Piece): number => {
    const rank = wanted.findIndex((start) => path.startsWith(start));
    return rank >= 0 ? rank : touched.includes(path) ? wanted.length : Infinity;
  };
  const isGuard = (piece: Piece): boolean => rankOf(piece) < Infinity;
  const rotation = rotations(pool)[landing % landingsPerRound] ?? [];
  const share = { guards: [] as Piece[], rotation: [] as Piece[], left: [] as Piece[] };
  let seconds = 0;
  const take = (piece: Piece, as: 'guards' | 'rotation'): void => {
    const taken = wallSeconds(piece);
    const fits = seconds + taken <= Math.min(budgetSeconds, usualBudgetSeconds);
    if (fits) seconds += taken;
    share[fits ? as : 'left'].push(piece);
  };
  for (const piece of pool.filter(isGuard).toSorted((a, b) => rankOf(a) - rankOf(b))) take(piece, 'guards');
  for (const piece of rotation.filter((one) => !isGuard(one))) take(piece, 'rotation');
  return share;
}

/** Splits the pool into one part per landing of a round, of about equal duration. */
export function rotations(pool: readonly Piece[]): readonly (readonly Piece[])[] {
  const parts = Array.from({ length: landingsPerRound }, () => ({ pieces: [] as Piece[], seconds: 0 }));
  for (const piece of pool.toSorted((a, b) => b.seconds - a.seconds || compareText(a.path, b.path))) {
    const shortest = parts.reduce((best, part) => (part.seconds < best.seconds ? part : best));
    shortest.pieces.push(piece);
    shortest.seconds += wallSeconds(piece);
  }
  return parts.map(({ pieces }) => pieces);
}

/** Two files run concurrently, unless one must be alone. */
const wallSeconds = ({ seconds, isAlone }: Piece): number => (isAlone ? seconds : seconds / 2);

/** The files of which `--all` runs more: those of tier all, slow ones, those with a value `all` in `atTier`, and those with turns inside. */
export function readPool(root: string, seconds: Readonly<Record<string, number>>): readonly Piece[] {
  const grows = (file: TestFile): boolean =>
    file.tier === 'all' ||
    hasTurns(file, seconds) ||
    /\batTier(<[^(]*>)?\(\{[^}]*\ball: |\b(?:in|oneIn)Turn\(/.test(readFileSync(join(root, file.path), 'utf8'));
  return projectNames
    .flatMap((project) => testFiles(root, project))
    .filter((file) => ![userModeBooter, emulatedBooter].includes(file.path) && grows(file))
    .map(({ path, isAlone }) => ({ path, isAlone, seconds: seconds[path] ?? usualSeconds }));
}

/** The number of this landing, and the commit of the one before; undefined when the history is too short. */
function landingOf(root: string): { readonly number: number; readonly base: string | undefined } {
  const git = (...args: readonly string[]): string =>
    execFileSync('git', ['-C', root, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  const number = Number(readFileSync(join(root, 'test/landing'), 'utf8'));
  if (!Number.isInteger(number)) throw new Error('test/landing is not a number');
  try {
    const [newest, before] = git('log', '-2', '--format=%H', '--', 'test/landing').split('\n').filter(Boolean);
    return { number, base: newest === git('rev-parse', 'HEAD') ? before : newest };
  } catch {
    return { number, base: undefined };
  }
}

function touchedSince(root: string, base: string | undefined): readonly string[] {
  if (base === undefined) return [];
  const args = ['-C', root, 'diff', '--name-only', '--no-renames', base, '--'];
  return execFileSync('git', args, { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
    .split('\n')
    .filter(Boolean);
}

/** Prints a summary on standard error, and the paths for `./dev` on standard output. */
function main(): void {
  const root = join(import.meta.dirname, '..');
  const { number, base } = landingOf(root);
  const budgetSeconds = Number(process.env['SLUICE_SHARE_SECONDS'] ?? usualBudgetSeconds);
  const share = shareOf(readPool(root, knownSeconds()), touchedSince(root, base), number, budgetSeconds);
  const since = base === undefined ? 'no earlier landing is known' : `changed since ${base.slice(0, 12)}`;
  const list = (title: string, pieces: readonly Piece[]): void => {
    process.stderr.write(`share: ${title}: ${pieces.length === 0 ? 'none' : ''}\n`);
    for (const piece of pieces) process.stderr.write(`share:   ${piece.path} (${piece.seconds} s)\n`);
  };
  list(`guards of the touched paths (${since})`, share.guards);
  list(`rotation ${(number % landingsPerRound) + 1} of ${landingsPerRound}`, share.rotation);
  if (share.left.length > 0) list('left out, over the time budget; ./dev test --all runs them', share.left);
  process.stdout.write(`${[...share.guards, ...share.rotation].map(({ path }) => path).join(' ')}\n`);
}

if (import.meta.main) main();
