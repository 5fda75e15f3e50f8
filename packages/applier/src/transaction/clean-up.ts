import { carryOut } from '../rollout/carry-out.ts';
import { adaptGoal, ownState } from '../rollout/own.ts';
import { plan } from '../rollout/plan.ts';
import type { Ports } from '../rollout/ports.ts';
import { withSysctls } from '../rollout/restore.ts';
import { type ChainNames, chainNames, familyNames, joinNames } from '../rollout/state.ts';
import { lookVirtual } from '../rollout/virtual.ts';
import { ownedNames, switchOff } from './back.ts';

/**
 * Removes every chain and jump that Sluice made and gives sysctls and time-outs of IPVS the values that they had before.
 * @returns the number of steps
 */
export async function cleanUp(ports: Ports): Promise<number> {
  const { kernel, journal } = ports;
  if (!journal.standing) return 0;
  await switchOff(ports);
  const owned = await ownedNow(ports);
  const observed = await kernel.observe(familyNames.filter((family) => owned[family]));
  const goal = adaptGoal({ families: {}, sysctls: journal.originals }, observed, owned, kernel);
  const virtual = await lookVirtual(goal, owned, ports);
  const now = await withSysctls({ families: ownState(observed, owned, goal), sysctls: new Map() }, goal, ports);
  const change = plan(now, goal, kernel, virtual?.plan);
  await carryOut(change, ports);
  await kernel.switch?.remove();
  await journal.forget();
  return change.steps.length;
}

/** What is ours: of the generation that stands, and of a change that is open. */
export async function ownedNow(ports: Ports): Promise<ChainNames> {
  const { standing, open } = ports.journal;
  const from = open && (await ports.journal.generation(open.from.number, open.from.revision));
  const own = standing ? await ownedNames(standing, ports) : {};
  return from ? joinNames(own, chainNames(from.state)) : own;
}
