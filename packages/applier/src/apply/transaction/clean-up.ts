import { carryOut, withSysctls } from './restore.ts';
import { adaptDesired, ownState } from '../plan/ownership.ts';
import { plan } from '../plan/plan.ts';
import type { Generation } from '../../ports/journal.ts';
import type { Ports } from '../../ports/ports.ts';
import { isKubeProxyChain } from '@sluice/netfilter';
import { type OwnedNames, chainNames, familyNames, joinNames, isTree, withoutNames } from '../../ports/node-state.ts';
import { readOtherPlanes } from '../plan/other-planes.ts';
import { ownedNames, switchOff } from './roll-back.ts';
import { leakedChains } from '../plan/side-by-side.ts';

/**
 * Removes every chain and jump that Sluice made, also leaked chains of no known generation, and restores the values of sysctls and IPVS
 * time-outs from before Sluice.
 * @param keepsKubeProxy chains with kube-proxy's names stay: a kube-proxy that runs again has written them
 * @returns the number of steps
 */
export async function cleanUp(ports: Ports, keepsKubeProxy = false): Promise<number> {
  const { kernel, journal } = ports;
  if (!journal.active) return 0;
  await switchOff(ports);
  const known = await ownedNow(ports);
  const observed = await kernel.observe(familyNames.filter((family) => known[family]));
  const all = joinNames(known, leakedChains(observed, journal.active.state));
  const owned = keepsKubeProxy ? withoutNames(all, isKubeProxyChain) : all;
  const desired = adaptDesired({ families: {}, sysctls: journal.originals }, observed, owned, kernel);
  const otherPlanes = await readOtherPlanes(desired, owned, ports, undefined);
  const now = await withSysctls({ families: ownState(observed, owned, desired), sysctls: new Map() }, desired, ports);
  const change = plan(now, desired, kernel, otherPlanes);
  await carryOut(change, ports);
  await kernel.switch?.remove();
  await journal.forget();
  return change.steps.length;
}

/** The names of all chains that are ours: of the active generation, of an open change, and of what a boot put into a halted node. */
export async function ownedNow(ports: Ports): Promise<OwnedNames> {
  const { journal } = ports;
  const { active, open } = journal;
  const known = active ?? (open && (await journal.generation(open.from.number, open.from.revision)));
  if (!known) return {};
  const own = await ownedNames(known, ports);
  return journal.halted === undefined ? own : joinNames(own, await olderNames(known, journal));
}

/**
 * The chains of every generation before `known`: which of them a boot put in is not recorded (`load`). Generations of another layout do
 * not count beside layout `tree`: their names may be a kube-proxy's.
 */
async function olderNames(known: Generation, journal: Ports['journal']): Promise<OwnedNames> {
  let names: OwnedNames = {};
  for (let number = known.number - 1; number > 0; number--) {
    const older = await journal.generation(number);
    if (older && (isTree(older.state) || !isTree(known.state))) names = joinNames(names, chainNames(older.state));
  }
  return names;
}
