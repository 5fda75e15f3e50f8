import { diagnose, type Diagnosis, type Finding, printTarget, type ExaminedTarget } from '@sluice/netfilter';
import { connectionChecks } from './checks/connections.ts';
import { foreignRules } from './checks/foreign-rules.ts';
import { kernelState } from './checks/kernel-state.ts';
import { networkChecks } from './checks/network.ts';
import { serviceChecks } from './checks/services.ts';
import { sluicedChecks } from './checks/sluiced.ts';
import { traceChecks } from './checks/trace.ts';
import type { Facts } from './facts.ts';
import { follow } from './packets.ts';
import { frontendsOf } from './target.ts';

/** Facts in, one most likely cause out. */
export function diagnoseNode(target: ExaminedTarget, facts: Facts): Diagnosis {
  return diagnose(printTarget(target), findingsOf(target, facts), facts.unread);
}

function findingsOf(target: ExaminedTarget, facts: Facts): readonly Finding[] {
  const own = sluicedChecks(facts, target);
  const { desired } = facts;
  if (!desired) return own;
  const frontends = frontendsOf(target, desired, facts.interfaces ?? []);
  const packets = follow(frontends, desired, facts);
  return [
    ...own,
    ...kernelState(desired, facts),
    ...foreignRules(packets, desired, facts),
    ...traceChecks(printTarget(target), facts.live, desired),
    ...serviceChecks(target, frontends, packets, facts),
    ...networkChecks(target, frontends, desired, facts),
    ...connectionChecks(frontends, facts),
  ];
}
