import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type BundleFiles, clusterFile } from '@sluice/bundle';
import { document } from '@sluice/cli';
import { compareText, type Problem, refusal } from '@sluice/netfilter';
import type { ReportSides } from '../../emit/report/page-data.ts';
import { type DiffFormat, patches, printDiff } from '../../emit/diff.ts';
import { exitCodes } from '@sluice/renderer/exit.ts';
import { decode } from '@sluice/renderer/load/decode.ts';
import { loadLimits } from '@sluice/renderer/load/parse/limits.ts';
import { type ReadSources, readSources, type SourceFile } from '@sluice/renderer/load/sources.ts';
import { render } from '@sluice/renderer/render/render.ts';
import { diffBundles, isSame } from '../../diff/diff.ts';
import { bundleAt } from '@sluice/renderer/commands/bundle/bundle-at.ts';
import { reading, Stopped } from '@sluice/renderer/commands/failure/failure.ts';
import { isStopped, joinProblems } from '@sluice/renderer/commands/failure/problems.ts';
import { inputOf } from '@sluice/renderer/commands/input/input.ts';
import { print, progress } from '@sluice/renderer/commands/output/progress.ts';

/** How to render a directory of manifests for a comparison. */
interface SideOptions {
  readonly config?: string;
  /** The current state of the cluster, the base of both sides. */
  readonly base?: readonly string[];
}

/**
 * Reads one side of a comparison: a bundle, or a directory of manifests, which is rendered in memory.
 * @returns the files, or the problems when the manifests cannot be rendered
 * @throws Stopped when there is no bundle
 */
async function sideAt(spec: string, { config, base: given }: SideOptions): Promise<BundleFiles | readonly Problem[]> {
  if (!reading(spec, () => isManifestFolder(spec))) return bundleAt(spec);
  const base = given && (await readSources(given, { recursive: false, stdin: process.stdin }));
  const change = reading(spec, () => readManifestFolder(spec));
  const read = inputOf({ change, base }, config === undefined ? {} : { config });
  const rendered = render({ ...read.input, allocate: base === undefined, snapshot: false });
  const problems = joinProblems(read.problems, rendered.problems);
  return isStopped(problems) ? problems : rendered.files;
}

/**
 * Whether a directory contains manifests and not a bundle: kubectl calls its KUBECTL_EXTERNAL_DIFF with two of them. An incomplete bundle
 * counts as a bundle, so that the missing part is reported.
 */
function isManifestFolder(path: string): boolean {
  if (!statSync(path, { throwIfNoEntry: false })?.isDirectory()) return false;
  if (existsSync(join(path, 'profiles'))) return false;
  const cluster = join(path, clusterFile);
  return !existsSync(cluster) || !readFileSync(cluster, 'utf8').includes('apiVersion: sluice.dev/');
}

/**
 * Reads all files of a directory tree, whatever their names: kubectl's have no extension (`v1.Service.shop.web`). A file may be empty, such
 * as that of an object that does not exist yet.
 */
function readManifestFolder(path: string): ReadSources {
  const sources: SourceFile[] = [];
  const problems: Problem[] = [];
  const entries = readdirSync(path, { recursive: true, withFileTypes: true });
  for (const file of entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))) {
    const isTooLarge = statSync(file).size > loadLimits.fileBytesMax;
    const decoded = isTooLarge ? tooLarge(file) : decode(file, readFileSync(file));
    if ('text' in decoded) sources.push({ file, text: decoded.text });
    else problems.push(decoded);
  }
  return { sources: sources.toSorted((a, b) => compareText(a.file, b.file)), problems };
}

const tooLarge = (file: string): Problem =>
  refusal(
    'INPUT_TOO_LARGE',
    `Cannot read ${file}: it is larger than ${loadLimits.fileBytesMax} bytes`,
    'Compare directories of manifests only',
  );

interface DiffOptions extends SideOptions {
  /** `html` is the page of `sluice report`. */
  readonly output: DiffFormat | 'html';
  readonly raw?: boolean;
}

/** `sluice diff`: prints the differences of two bundles, or of two directories of manifests, and their effect on traffic. */
export async function diffCommand(old: string, updated: string, options: DiffOptions): Promise<number> {
  progress(`reading ${old}`);
  const before = await sideAt(old, options);
  progress(`reading ${updated}`);
  const after = await sideAt(updated, options);
  // Both sides share one sluice.yaml: its problems are printed once.
  if (isRefused(before) || isRefused(after)) throw new Stopped([before, after].filter(isRefused).flat());
  if (options.raw) {
    const files = [...patches(before, after)];
    print(options.output === 'json' ? document('RawDiff', { files }) : files.map(({ patch }) => patch).join(''));
    return files.length === 0 ? exitCodes.done : exitCodes.different;
  }
  progress('comparing');
  if (options.output === 'html') {
    return printPage({ old: { name: old, files: before }, updated: { name: updated, files: after } });
  }
  const diff = diffBundles(before, after);
  print(printDiff(diff, options.output));
  return isSame(diff) ? exitCodes.done : exitCodes.different;
}

const isRefused = (side: BundleFiles | readonly Problem[]): side is readonly Problem[] => Array.isArray(side);

/** The page is loaded on demand: no other format needs it. */
async function printPage(sides: ReportSides): Promise<number> {
  const [{ reportOn }, { reportHtml }] = await Promise.all([
    import('../../report/report.ts'),
    import('../../emit/report/html.ts'),
  ]);
  const report = reportOn({ old: sides.old.files, updated: sides.updated.files });
  print(reportHtml(report, sides));
  return isSame(report.diff) ? exitCodes.done : exitCodes.different;
}
