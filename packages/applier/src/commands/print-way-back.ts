import { printEndpointChanges } from '../transaction/endpoint-changes.ts';
import type { WayBackPlan } from '../transaction/way-back-plan.ts';

/** How many Services a line names. */
const namedMax = 10;

/**
 * What a way back changes, in lines for people.
 * @param at when the generation was confirmed; undefined where the history does not say
 */
export function printWayBack(
  { target, services, keepsNewest, changes, lines }: WayBackPlan,
  at: string | undefined,
): string {
  const when = at === undefined ? '' : `, confirmed ${at}`;
  const title = `back to generation ${target.number} (version ${target.version}${when})`;
  if (!services) return `${title}\n  what stands cannot be read, so nobody knows what changes\n`;
  const { come, go } = services;
  const all = [
    go.length === 0 ? [] : [`${count(go)} removed: ${some(go)}`],
    come.length === 0 ? [] : [`${count(come)} back, with the endpoints of then, which may be stale: ${some(come)}`],
    changes.length === 0
      ? []
      : [
          `${keepsNewest ? 'cannot keep the newest endpoints of' : 'endpoints of then, which may be stale'}: ${printEndpointChanges(changes)}`,
        ],
    [`${lines} lines of rules change`],
  ];
  return [title, ...all.flat().map((line) => `  ${line}`), ''].join('\n');
}

const count = ({ length }: readonly string[]): string => (length === 1 ? '1 Service' : `${length} Services`);

const some = (names: readonly string[]): string =>
  names.length <= namedMax
    ? names.join(', ')
    : `${names.slice(0, namedMax).join(', ')}, ${names.length - namedMax} more`;
