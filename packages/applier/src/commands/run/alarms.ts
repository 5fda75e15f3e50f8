import type { DaemonLog } from '../../daemon/reports.ts';
import type { EarlyRule } from '../../apply/order/early-rules.ts';
import type { OrderFindings } from '../../apply/order/order.ts';
import type { Status } from '../../observe/status/status.ts';

/** Alarms of resources of the machine that may be missing for a while. */
type MachineAlarm =
  | 'STATUS_PORT'
  | 'HEALTH_PORT'
  | 'LOCALHOST_PORT'
  | 'BUNDLE_UNWATCHED'
  | 'FOREIGN_RULE_FIRST'
  | 'BACKEND_DOUBTFUL'
  | 'NFT_CANNOT_WRITE'
  | 'AFFINITY_NEARLY_FULL'
  | 'CONNTRACK_NEARLY_FULL'
  | 'CONTROL_SOCKET'
  | 'STATE_DAMAGED'
  | 'SOURCE_LATE'
  | 'SOURCE_REFUSED';

/** Raises an alarm while a resource is missing; logs it as well, because the status port may be what is missing. */
export function lastingAlarm(code: MachineAlarm, status: Status, log: DaemonLog): (why: string | undefined) => void {
  let last: string | undefined;
  return (why) => {
    if (why === last) return;
    last = why;
    if (why === undefined) {
      status.clear(code);
      log.info({ alarm: code }, 'alarm cleared');
    } else {
      status.raise(code, why);
      log.warn({ alarm: code }, why);
    }
  };
}

/** Keeps the alarm of foreign rules before our jumps raised while there are any; logs changes only. */
export function orderAlarm(status: Status, log: DaemonLog): (order: OrderFindings) => void {
  const alarm = lastingAlarm('FOREIGN_RULE_FIRST', status, log);
  let noted: string | undefined;
  return (order) => {
    alarm(printTaking(order));
    const note = printUnread(order);
    status.note('FOREIGN_RULE_UNREAD', note);
    if (note !== undefined && note !== noted) log.info({ note: 'FOREIGN_RULE_UNREAD' }, note);
    noted = note;
  };
}

/** Logs the first failing probe once; keeps the alarm raised while a probe fails. */
export function probeAlarm(status: Status, log: DaemonLog): (why: string | undefined) => void {
  const code = 'PROBE_FAILED_AFTER_UPDATE';
  let isRaised = false;
  return (why) => {
    if (why === undefined) {
      status.clear(code);
      log.info({ alarm: code }, 'the probes pass again');
    } else {
      status.raise(code, why);
      if (!isRaised) log.warn({ alarm: code }, why);
    }
    isRaised = why !== undefined;
  };
}

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
