import type { FlowOutcome } from '../flows/flow.ts';

/** The effect of a change on clients: a destination becomes reachable, unreachable, or leads elsewhere. */
export type FlowEffect = 'opens' | 'closes' | 'moves';

/** The effect of a changed outcome. */
export function effectOf(old: FlowOutcome, updated: FlowOutcome): FlowEffect {
  const [was, is] = [reaches(old), reaches(updated)];
  return was === is ? 'moves' : is ? 'opens' : 'closes';
}

function reaches({ branches }: FlowOutcome): boolean {
  return branches.some(({ verdict }) => verdict === 'dnat' || verdict === 'accept');
}
