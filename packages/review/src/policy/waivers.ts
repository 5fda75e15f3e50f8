import { policyRules, type PolicySubject } from './catalogue.ts';
import type { PolicyFinding, Violation } from './finding.ts';
import { levelOf, type PolicySettings, type Waiver } from './settings.ts';

/** The place of findings about waivers, which are in no file of the bundle. */
const waiversFile = 'sluice.yaml';

/**
 * Marks the findings that a waiver matches, and adds findings about waivers. A waiver holds through its last day; after it, its
 * findings count again.
 * @param today `2026-11-21`; days in this form compare as texts
 * @param checked what rules were checked about: waivers of other rules cannot be called unused
 */
export function waive(
  findings: readonly PolicyFinding[],
  settings: PolicySettings,
  today: string,
  checked: readonly PolicySubject[],
): readonly PolicyFinding[] {
  const waivers = settings.waivers ?? [];
  const marked = findings.map((finding): PolicyFinding => {
    const waiver = waiverOf(finding, settings, today);
    return waiver === undefined ? finding : { ...finding, waived: { reason: waiver.reason, expires: waiver.expires } };
  });
  const about = waivers.flatMap((waiver): readonly Violation[] => {
    if (waiver.expires < today) return [expired(waiver)];
    const isChecked = checked.includes(policyRules[waiver.rule].about);
    return !isChecked || findings.some((finding) => isFor(waiver, finding)) ? [] : [unused(waiver)];
  });
  return [...marked, ...about.flatMap((one) => levelled(one, settings))];
}

/** The waiver of a violation that holds on a day. */
export function waiverOf(found: Violation, { waivers = [] }: PolicySettings, today: string): Waiver | undefined {
  return waivers.find((one) => one.expires >= today && isFor(one, found));
}

function isFor({ rule, subject }: Waiver, finding: Violation): boolean {
  return rule === finding.code && (subject === undefined || subject === finding.subject);
}

function levelled(found: Violation, settings: PolicySettings): readonly PolicyFinding[] {
  const level = levelOf(found.code, settings);
  return level === undefined ? [] : [{ ...found, level, reason: policyRules[found.code].reason }];
}

const place = { path: waiversFile, line: 1 } as const;
const nameOf = ({ rule, subject }: Waiver): string => (subject === undefined ? rule : `${rule} of ${subject}`);

function expired(waiver: Waiver): Violation {
  return {
    ...place,
    code: 'WAIVER_EXPIRED',
    subject: waiver.subject ?? 'bundle',
    message: `Cannot waive ${nameOf(waiver)}: the waiver expired after ${waiver.expires}`,
    hint: 'Fix the cause and remove the waiver, or extend it with a new reason',
  };
}

function unused(waiver: Waiver): Violation {
  return {
    ...place,
    code: 'WAIVER_UNUSED',
    subject: waiver.subject ?? 'bundle',
    message: `The waiver of ${nameOf(waiver)} matches no finding`,
    hint: 'Remove it from `policy.waivers`',
  };
}
