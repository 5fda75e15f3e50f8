import type { DaemonLog } from '../../daemon/reports.ts';
import type { OrderFindings } from '../../order/order.ts';
import { printTaking, printUnread } from '../../order/print-order.ts';
import type { Status } from '../../status/status.ts';

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
  | 'CONTROL_SOCKET'
  | 'STATE_DAMAGED';

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
