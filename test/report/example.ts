import { join } from 'node:path';
import type { BundleFiles } from '@sluice/bundle';
import { reportHtml } from '../../packages/review/src/emit/report/html.ts';
import { readTree } from '../../packages/renderer/src/load/tree.ts';
import { reportOn } from '../../packages/review/src/report/report.ts';

const examples = join(import.meta.dirname, '..', '..', 'examples');

/** The bundle of an example. */
export function bundle(name: string): BundleFiles {
  const files = readTree(join(examples, name, 'out'));
  if (!(files instanceof Map)) throw new Error(`examples/${name} is not a bundle`);
  return files;
}

/** The page on a change. @param name of the new bundle, which the page shows */
export function pageOf(old: BundleFiles, fresh: BundleFiles, name = 'new'): string {
  const report = reportOn({ old, updated: fresh, policy: { settings: {}, today: '2026-11-21' } });
  return reportHtml(report, { old: { name: 'old', files: old }, updated: { name, files: fresh } });
}
