import type { BundleFiles } from '@sluice/bundle';
import type { Problem } from '@sluice/netfilter';
import { document } from '@sluice/cli';
import type { ReportSides } from '../../emit/report/page-data.ts';
import { type DiffFormat, patches, printDiff } from '../../emit/review/diff.ts';
import { exitCodes } from '../../exit.ts';
import { diffBundles, isSame } from '../../review/diff/diff.ts';
import { print, progress } from '../output/progress.ts';
import { type SideOptions, sideAt } from './side.ts';
import { reportProblems } from '../output/output.ts';

interface DiffOptions extends SideOptions {
  /** `html` is the page of `sluice report`. */
  readonly output: DiffFormat | 'html';
  readonly raw?: boolean;
}

/** `sluice diff`: prints the differences of two bundles, or of two directories of manifests, and their effect on traffic. */
export async function diffCommand(old: string, fresh: string, options: DiffOptions): Promise<number> {
  progress(`reading ${old}`);
  const before = await sideAt(old, options);
  progress(`reading ${fresh}`);
  const after = await sideAt(fresh, options);
  if (isRefused(before) || isRefused(after)) {
    // Both sides share one sluice.yaml: its problems are printed once.
    reportProblems([before, after].filter(isRefused).flat());
    return exitCodes.problem;
  }
  if (options.raw) {
    const files = [...patches(before, after)];
    print(options.output === 'json' ? document('RawDiff', { files }) : files.map(({ patch }) => patch).join(''));
    return files.length === 0 ? exitCodes.done : exitCodes.different;
  }
  progress('comparing');
  if (options.output === 'html') {
    return printPage({ old: { name: old, files: before }, fresh: { name: fresh, files: after } });
  }
  const diff = diffBundles(before, after);
  if (!('flows' in diff)) {
    reportProblems(diff);
    return exitCodes.problem;
  }
  print(printDiff(diff, options.output));
  return isSame(diff) ? exitCodes.done : exitCodes.different;
}

const isRefused = (side: BundleFiles | readonly Problem[]): side is readonly Problem[] => Array.isArray(side);

/** The page is loaded on demand: no other format needs it. */
async function printPage(sides: ReportSides): Promise<number> {
  const [{ reportOn }, { reportHtml }] = await Promise.all([
    import('../../review/report/report.ts'),
    import('../../emit/report/html.ts'),
  ]);
  const report = reportOn({ old: sides.old.files, fresh: sides.fresh.files });
  if (!('diff' in report)) {
    reportProblems(report);
    return exitCodes.problem;
  }
  print(reportHtml(report, sides));
  return isSame(report.diff) ? exitCodes.done : exitCodes.different;
}
