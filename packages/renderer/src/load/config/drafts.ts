import { addAll, type Problem } from '@sluice/netfilter';
import type { LabelSelector } from '../../render/model/config.ts';
import type { Path } from '../../render/model/kube.ts';
import { configProblem } from './problems.ts';
import type { ProfileDraft } from './profiles.ts';
import { settingsOf } from './settings.ts';
import { entriesOf, isWrong, type SluiceText, sluiceObject } from './sluice.ts';

/**
 * Reads the profiles of sluice.yaml in their order; the last one matches every node.
 * @returns drafts to merge; a profile with an invalid name or selector is left out, as its problem is already reported
 */
export function draftProfiles(sluice: SluiceText): { drafts: readonly ProfileDraft[]; problems: readonly Problem[] } {
  const problems: Problem[] = [];
  const drafts: ProfileDraft[] = [];
  const wrong = sluice.findings.map((finding) => finding.path);
  for (const [index, value] of entriesOf(sluice, 'profiles')) {
    const path: Path = ['profiles', index];
    const [name, nodeSelector] = [value['name'], (value['nodeSelector'] ?? {}) as LabelSelector];
    if (typeof name !== 'string' || isWrong(sluice, [...path, 'name']) || isWrong(sluice, [...path, 'nodeSelector']))
      continue;
    const place = sluice.origin.place([...path, 'name']);
    const complain = (field: string, why: string, hint: string): void => {
      problems.push(configProblem(sluice.origin.place([...path, field]), sluiceObject, [...path, field], why, hint));
    };
    const earlier = drafts.find((draft) => matchesEveryNode(draft.nodeSelector));
    if (drafts.some((draft) => draft.name === name))
      complain('name', `there are two profiles named ${name}`, 'Rename one of them');
    if (earlier)
      complain(
        'name',
        `it is unreachable: the earlier profile ${earlier.name} matches every node`,
        `Move ${earlier.name} to the end`,
      );
    addAll(problems, checkExpressions(sluice, [...path, 'nodeSelector', 'matchExpressions'], nodeSelector));
    drafts.push({ name, nodeSelector, settings: settingsOf(value, sluice.origin, path, wrong), place, path });
  }
  return { drafts: close(sluice, drafts, problems), problems };
}

/** Adds the built-in profile `default` unless another profile matches every node. */
function close(sluice: SluiceText, drafts: readonly ProfileDraft[], problems: Problem[]): readonly ProfileDraft[] {
  if (drafts.some((draft) => matchesEveryNode(draft.nodeSelector))) return drafts;
  const taken = drafts.find((draft) => draft.name === 'default');
  if (taken) {
    const why = 'default is the name of the built-in profile for nodes that no other profile matches';
    problems.push(
      configProblem(
        taken.place,
        sluiceObject,
        [...taken.path, 'name'],
        why,
        'Rename it, or remove its nodeSelector and move it to the end',
      ),
    );
    return drafts;
  }
  const place = sluice.origin.place([]);
  return [...drafts, { name: 'default', nodeSelector: {}, settings: new Map(), place, path: ['profiles'] }];
}

function matchesEveryNode(selector: LabelSelector): boolean {
  return Object.keys(selector.matchLabels ?? {}).length === 0 && (selector.matchExpressions ?? []).length === 0;
}

/** Kubernetes' `ValidateLabelSelectorRequirement`: In and NotIn need values, Exists and DoesNotExist take none. */
function checkExpressions(sluice: SluiceText, path: Path, selector: LabelSelector): Problem[] {
  return (selector.matchExpressions ?? []).flatMap((expression, index) => {
    const needsValues = expression.operator === 'In' || expression.operator === 'NotIn';
    const count = expression.values?.length ?? 0;
    if (needsValues === count > 0) return [];
    const at = [...path, index, 'values'];
    const why = needsValues
      ? `operator ${expression.operator} needs values`
      : `operator ${expression.operator} takes no values`;
    const hint = needsValues ? 'List the values' : 'Remove the values, or use In or NotIn';
    return [configProblem(sluice.origin.place(at), sluiceObject, at, why, hint)];
  });
}
