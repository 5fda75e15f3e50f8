import {
  diagnose,
  type Diagnosis,
  type ExaminedTarget,
  type Finding,
  printTarget,
  type Unread,
} from '@sluice/netfilter';
import { connectionChecks } from './connections.ts';
import { deciding, foreignRules } from './foreign-rules.ts';
import { kernelState } from './kernel-state.ts';
import { networkChecks } from './network.ts';
import { serviceChecks } from './services.ts';
import { sluicedChecks } from './sluiced.ts';
import { traceChecks } from './trace.ts';
import type { Facts } from '../facts.ts';
import { follow } from '../packets.ts';
import type { Meeting } from '../meetings.ts';
import { frontendsOf } from '../target.ts';

/** Facts in, one most likely cause out. */
export function diagnoseNode(target: ExaminedTarget, facts: Facts): Diagnosis {
  const { findings, unread } = checksOf(target, facts);
  return diagnose(printTarget(target), findings, [...facts.unread, ...unread]);
}

/**
 * What a diagnosis without a cause did not see. Rules, routes and sysctls can all be right and a packet lost: only packets show that.
 * @returns null where a cause was found, or packets were sent
 */
export function unsent(target: ExaminedTarget, diagnosis: Diagnosis, facts: Pick<Facts, 'live'>): Unread | null {
  if (diagnosis.cause || facts.live) return null;
  const subject = target.kind === 'all' ? '' : `${printTarget(target)} `;
  const because = `none were sent; \`sluiced doctor ${subject}--live\` opens connections of its own and traces them`;
  return { what: 'what becomes of packets', because };
}

/** The foreign rules of iptables that decide about packets to Services, so that their counters can be read. */
export function decidingRules(target: ExaminedTarget, facts: Facts): readonly Meeting[] {
  const { desired, interfaces = [] } = facts;
  if (!desired) return [];
  const packets = follow(frontendsOf(target, desired, interfaces), desired, facts);
  return deciding(packets, desired, facts).rules.flatMap(({ meeting }) =>
    meeting.table === undefined ? [] : [meeting],
  );
}

interface Checked {
  readonly findings: readonly Finding[];
  readonly unread: readonly Unread[];
}

function checksOf(target: ExaminedTarget, facts: Facts): Checked {
  const own = [...sluicedChecks(facts, target)];
  const { desired } = facts;
  if (!desired) return { findings: own, unread: [] };
  const frontends = frontendsOf(target, desired, facts.interfaces ?? []);
  const packets = follow(frontends, desired, facts);
  const foreign = foreignRules(packets, desired, facts);
  const findings = [
    ...own,
    ...kernelState(desired, facts),
    ...foreign.findings,
    ...traceChecks(printTarget(target), facts.live, desired, facts.tables),
    ...serviceChecks(target, frontends, packets, facts),
    ...networkChecks(target, frontends, desired, facts),
    ...connectionChecks(frontends, facts),
  ];
  // Replies that a bridge passes on without iptables leave entries as endpoints do that never answer.
  const isExplained = findings.some(({ code }) => code === 'BRIDGE_NOT_FILTERED');
  const shown = findings.filter(
    ({ code, certainty }) => !(isExplained && code === 'ENDPOINT_SILENT' && certainty !== 'certain'),
  );
  return { findings: shown, unread: foreign.unread };
}
