import { passes, type PortEffect } from '../failures/effect.ts';
import { breaks, type FailureRow, type WhatIf as JudgedFailures } from '../what-if/what-if.ts';
import type { Failure, WhatIf } from './what-if.ts';
import { percentText } from './words.ts';

/** The failures that a report shows: those that take something from clients or break a rule, the worst first. */
export function reportedFailures({ rows, sharePercent }: JudgedFailures): WhatIf {
  return rows.filter((row) => breaks(row) || row.rules.length > 0).map((row) => failureOf(row, sharePercent / 100));
}

/** @param most the share that one endpoint may get, 0 to 1 */
function failureOf({ places, effects, rules }: FailureRow, most: number): Failure {
  const [{ kind, name }] = places as [FailureRow['places'][number]];
  const texts = (of: (effect: PortEffect) => readonly string[]): readonly string[] => [...new Set(effects.flatMap(of))];
  return {
    kind,
    name,
    lost: texts(lostOf),
    over: texts((effect) => {
      const { port, share } = effect;
      const change = `${percentText(share.before)} → ${percentText(share.after)}`;
      return passes(effect, most) ? [`${share.endpoint} of ${port.key}: ${change}`] : [];
    }),
    rules: rules.map(({ code, subjects }) => `${code} (${subjects.length})`),
  };
}

/** A port, or where it is not lost everywhere the nodes and frontends without it. */
function lostOf({ port: { key }, isGone, without, dark }: PortEffect): readonly string[] {
  if (isGone) return [key];
  return [
    ...without.flatMap(({ nodes, policy }) => nodes.map((node) => `${key} on ${node} (${policy})`)),
    ...dark.map((frontend) => `${frontend} of ${key}`),
  ];
}
