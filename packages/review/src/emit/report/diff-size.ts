import type { BundleFiles } from '@sluice/bundle';
import { patches } from '../diff.ts';

/** The size of a diff. */
export interface DiffSize {
  readonly files: number;
  /** Added and removed lines with their context. */
  readonly lines: number;
  readonly bytes: number;
}

/**
 * The limits of GitHub for a diff: "Limits for viewing content and diffs in a repository". Above one of them the web page hides the
 * content of files.
 */
const webLimits = { files: 300, lines: 20_000, bytes: 1_000_000 } as const satisfies DiffSize;

/** Measures the diff of two bundles in Git's format. */
export function diffSize(old: BundleFiles, updated: BundleFiles): DiffSize {
  const size = { files: 0, lines: 0, bytes: 0 };
  for (const { patch } of patches(old, updated)) {
    size.files++;
    size.bytes += Buffer.byteLength(patch);
    for (let at = patch.indexOf('\n'); at >= 0; at = patch.indexOf('\n', at + 1)) size.lines++;
  }
  return size;
}

/** One sentence on how much of the diff a Git hosting page will show. */
export function webText({ files, lines, bytes }: DiffSize): string {
  const amount = `${files} files, ${lines} lines, ${Math.ceil(bytes / 1000)} kB`;
  const beyond = (['files', 'lines', 'bytes'] as const).filter(
    (what) => ({ files, lines, bytes })[what] > webLimits[what],
  );
  if (beyond.length === 0) return `Git's web page shows the whole difference (${amount}).`;
  const shares = beyond.map((what) => Math.floor((100 * webLimits[what]) / { files, lines, bytes }[what]));
  return `Git's web page shows about ${Math.min(...shares)} % of the difference (${amount}; it stops at 300 files, 20,000 lines, 1 MB).`;
}
