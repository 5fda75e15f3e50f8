import { compareText } from '@sluice/netfilter';
import type { BundleDiff } from '../diff/diff.ts';
import type { Effect, SingleEffect } from './effect.ts';
import { factEffects } from './fact-effects.ts';
import { flowEffects } from './flow-effects.ts';
import { profileEffects } from './profile-effects.ts';
import type { ReportService } from './services.ts';
import { compareSeverity, type Severity } from './severity.ts';

/** What a change does, worst first; a sentence that holds for many subjects is there once. */
export function effectsOf(diff: BundleDiff, services: readonly ReportService[]): readonly Effect[] {
  const declared = [...factEffects(diff, services), ...profileEffects(diff)];
  return merged([...declared, ...flowEffects(diff, services, declared)]);
}

function merged(all: readonly SingleEffect[]): readonly Effect[] {
  const groups = [...Map.groupBy(all, ({ severity, sentence }) => `${severity} ${sentence}`).values()];
  return groups
    .map((group): Effect => {
      const subjects = [...Map.groupBy(group, ({ name, isService }) => `${isService} ${name}`).values()];
      return {
        severity: group[0]!.severity,
        sentence: group[0]!.sentence,
        subjects: subjects
          .map((own) => ({
            name: own[0]!.name,
            isService: own[0]!.isService,
            details: [...new Set(own.map(({ detail }) => detail))].filter(Boolean),
          }))
          .toSorted((a, b) => compareText(a.name, b.name)),
      };
    })
    .toSorted(
      (a, b) =>
        compareSeverity(a.severity, b.severity) ||
        b.subjects.length - a.subjects.length ||
        compareText(a.sentence, b.sentence),
    );
}

/** The worst severity of each Service that an effect names. */
export function severityByService(effects: readonly Effect[]): ReadonlyMap<string, Severity> {
  const found = new Map<string, Severity>();
  for (const { severity, subjects } of effects) {
    for (const { name, isService } of subjects) if (isService && !found.has(name)) found.set(name, severity);
  }
  return found;
}
