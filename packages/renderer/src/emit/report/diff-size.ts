import type { BundleFiles } from '@sluice/bundle';
import { patches } from '../review/diff.ts';

/** How much a difference is to a web page that shows it. */
export interface DiffSize {
  readonly files: number;
  /** Lines that are added or removed, and those shown around them. */
  readonly lines: number;
  readonly bytes: number;
}

/**
 * What GitHub shows of a difference at most: "Limits for viewing content and diffs in a repository". Past one of them the web page leaves
 * files out without saying what is in them.
 */
export const webLimits = { files: 300, lines: 20_000, bytes: 1_000_000 } as const satisfies DiffSize;

/** Measures the difference of two bundles as Git would print it. */
export function diffSize(old: BundleFiles, fresh: BundleFiles): DiffSize {
  const size = { files: 0, lines: 0, bytes: 0 };
  for (const { patch } of patches(old, fresh)) {
    size.files++;
    size.bytes += Buffer.byteLength(patch);
    for (let at = patch.indexOf('\n'); at >= 0; at = patch.indexOf('\n', at + 1)) size.lines++;
  }
  return size;
}

/** One sentence on what the web page of Git will show. */
export function webText({ files, lines, bytes }: DiffSize): string {
  const amount = `${files} files, ${lines} lines, ${Math.ceil(bytes / 1000)} kB`;
  const beyond = (['files', 'lines', 'bytes'] as const).filter(
    (what) => ({ files, lines, bytes })[what] > webLimits[what],
  );
  if (beyond.length === 0) return `Git's web page shows the whole difference (${amount}).`;
  const shares = beyond.map((what) => Math.floor((100 * webLimits[what]) / { files, lines, bytes }[what]));
  return `Git's web page shows about ${Math.min(...shares)} % of the difference (${amount}; it stops at 300 files, 20,000 lines, 1 MB).`;
}
