import type { LabelSelector } from '../model/config.ts';

/**
 * Whether a label selector matches labels, by the API server's rules (`LabelSelectorAsSelector`): every part must match, an
 * empty selector matches everything, and `NotIn` also matches labels without the key.
 */
export function selectorMatches(selector: LabelSelector, labels: ReadonlyMap<string, string>): boolean {
  for (const [key, value] of Object.entries(selector.matchLabels ?? {})) if (labels.get(key) !== value) return false;
  for (const { key, operator, values = [] } of selector.matchExpressions ?? []) {
    const value = labels.get(key);
    const isIn = value !== undefined && values.includes(value);
    if (operator === 'In' && !isIn) return false;
    if (operator === 'NotIn' && isIn) return false;
    if (operator === 'Exists' && value === undefined) return false;
    if (operator === 'DoesNotExist' && value !== undefined) return false;
  }
  return true;
}
