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
  const count = (level: PolicyFinding['level']): number =>
    findings.filter((finding) => finding.level === level && finding.waived === undefined).length;
  const [errors, warnings, notes] = [count('error'), count('warning'), count('note')];
  const waived = findings.filter((finding) => finding.waived !== undefined).length;
  const parts = [
    errors === 0 ? '' : plural(errors, 'error'),
    warnings === 0 ? '' : plural(warnings, 'warning'),
    notes === 0 ? '' : plural(notes, 'note'),
    waived === 0 ? '' : `${waived} waived`,
  ].filter(Boolean);
  return parts.length === 0 ? 'No policy findings' : parts.join(', ');
}
