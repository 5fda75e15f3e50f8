import type { EarlyRule } from './early-rules.ts';
import type { OrderFindings } from './order.ts';

/** How many rules, and Services of each, a message names. */
const namedMax = 5;

/** The text of the alarm `FOREIGN_RULE_FIRST`; undefined if there is no such rule. */
export function printTaking({ taking }: OrderFindings): string | undefined {
  if (taking.length === 0) return undefined;
  const rules = some(
    taking.map((rule) => `${printRule(rule)} (${some(rule.services, 'Services')})`),
    'rules',
  );
  return `Foreign rules before our jumps take packets of Services: ${rules}. Remove them, move them after our jumps, or let sluiced move our jumps first with \`takeOver: [order]\` in sluiced.yaml`;
}

/** The text of a note on rules whose effect is unknown; undefined if there is none. */
export function printUnread({ unread }: OrderFindings): string | undefined {
  if (unread.length === 0) return undefined;
  const rules = some(
    unread.map((rule) => `${printRule(rule)} (${rule.because})`),
    'rules',
  );
  return `Cannot determine whether foreign rules before our jumps take packets of Services: ${rules}`;
}

const printRule = ({ family, table, rule }: EarlyRule): string =>
  `${family === 'ipv4' ? 'iptables' : 'ip6tables'} -t ${table} ${rule}`;

function some(texts: readonly string[], what: string): string {
  const more = texts.length - namedMax;
  return [...texts.slice(0, namedMax), ...(more > 0 ? [`${more} more ${what}`] : [])].join(', ');
}
