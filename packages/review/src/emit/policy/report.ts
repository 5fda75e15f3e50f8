import { plural } from '@sluice/netfilter';
import type { PolicyFinding } from '../../policy/finding.ts';
import type { PolicyResult } from '../../policy/policy.ts';

/** The findings of the policy, with the names of the bundle and the config. */
export interface PolicyReport {
  readonly result: PolicyResult;
  /** The bundle as the user named it: `rendered`, `main:rendered`. */
  readonly bundle: string;
  /** The path of the SluiceConfig. */
  readonly config?: string;
}

/** The file of a finding, relative to the current directory; without the Git revision. */
export function fileOf(
  { bundle, config }: Pick<PolicyReport, 'bundle' | 'config'>,
  { path, isInput }: PolicyFinding,
): string {
  if (isInput) return path;
  if (path === 'sluice.yaml') return config ?? path;
  const dir = bundle
    .slice(bundle.indexOf(':') + 1)
    .replace(/\/+$/, '')
    .replace(/^(?:\.\/)+/, '');
  return dir === '' || dir === '.' ? path : `${dir}/${path}`;
}

/** `2 errors, 1 warning, 3 waived`; a sentence without findings. */
export function countText({ findings }: PolicyResult): string {
  const groups = Map.groupBy(findings, ({ level, waived }) => (waived === undefined ? level : 'waived'));
  const parts = (['error', 'warning', 'note', 'waived'] as const).flatMap((what) => {
    const { length } = groups.get(what) ?? [];
    if (length === 0) return [];
    return what === 'waived' ? `${length} waived` : plural(length, what);
  });
  return parts.length === 0 ? 'No policy findings' : parts.join(', ');
}
