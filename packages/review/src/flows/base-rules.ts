import { baseFile } from '@sluice/bundle';
import { type Family, isRuleError, readRule, type Rule, toolOf } from '@sluice/netfilter';
import type { BundleView } from '../bundle/view.ts';

/** A rule of a base file. */
export interface ProfileBaseRule {
  readonly rule: Rule;
  /** False: it has a guard, so only some nodes have it. */
  readonly everywhere: boolean;
}

/** Stands in for a variable whose value does not matter here. */
const stand = { ipv4: '192.0.2.1', ipv6: '2001:db8::1' } as const satisfies Record<Family, string>;

/** The readable rules of a profile's base files, in order. Nodes refuse a bundle with unreadable ones. */
export function baseRulesOf(view: BundleView, profile: string, family: Family): readonly ProfileBaseRule[] {
  const lines = (['first', 'last'] as const).flatMap((where) =>
    (view.files.get(baseFile(profile, where, toolOf[family])) ?? '').split('\n'),
  );
  return lines.flatMap((line) => {
    const [, guard, text] = /^(@\S+ )?(-A .*)$/.exec(line) ?? [];
    if (text === undefined) return [];
    const filled = text.replaceAll(/( -[io]) \$\{[^}]+\}/g, '$1 any0').replaceAll(/\$\{[^}]+\}/g, stand[family]);
    const rule = readRule(filled, family);
    return isRuleError(rule) ? [] : [{ rule, everywhere: guard === undefined }];
  });
}
