import { canonicalRule, type Family, type TableName, tableNames } from '@sluice/bundle';
import type { Outcome } from '../rollout/outcome.ts';
import { isBare } from '../rollout/bare.ts';
import { adaptDesired, ownState } from '../rollout/own.ts';
import { plan } from '../rollout/plan.ts';
import type { Generation, Ports } from '../rollout/ports.ts';
import { restore } from '../rollout/restore.ts';
import { chainNames, familyNames, joinNames, type NodeState, type Observed, tableOf } from '../rollout/state.ts';
import { lookVirtual } from '../rollout/virtual.ts';
import { switchOff } from './back.ts';
import { baseChainParts } from './beside.ts';
import { entryNames, isTagged, isTree, rootsOf } from './entries.ts';
import { leakedChains } from './leaked-chains.ts';

/**
 * What to do when both slots of the journal are damaged. What the kernel holds is right as long as nobody says otherwise, so a
 * generation of the store that the kernel falls back to stands from now on; what was on trial is taken back. After a boot the kernel
 * holds nothing: then the generation stands that the node wrote down as confirmed. In any other case nothing is changed, and the node
 * is held for a person: nobody can tell whose rules these are.
 * @param families those that the node has tools for
 * @returns how it ended; undefined when the journal is not lost, or stays so
 */
export async function rescue(families: readonly Family[], ports: Ports): Promise<Outcome | undefined> {
  const { journal, kernel, report } = ports;
  const { lost } = journal;
  if (lost === undefined) return undefined;
  const observed = await kernel.observe(families);
  const bare = await isBare(observed, ports);
  const found = bare ? stoodLast(ports) : await recognised(observed, ports);
  if (!found) return undefined;
  if (!bare && isTree(found.state)) await takeBack(found, observed, ports);
  const why = bare ? 'which was confirmed' : 'which the kernel holds';
  const because = `${lost}: generation ${found.number}, ${why}, stands from now on; what was quarantined or set before Sluice is not known any more`;
  await journal.rescue(found, because);
  report('journal-rescued', { generation: found.number, version: found.version, bare });
  return { kind: 'rolled-back', because };
}

function stoodLast({ journal }: Pick<Ports, 'journal'>): Generation | undefined {
  for (const one of journal.remains()) return one.stoodLast ? one.generation : undefined;
  return undefined;
}

/** The generation that the kernel shows. */
async function recognised(observed: Observed, ports: Ports): Promise<Generation | undefined> {
  for (const { generation } of ports.journal.remains()) {
    const { state } = generation;
    if (isTree(state) ? showsTree(observed, state) : await showsExactly(observed, state, ports)) return generation;
  }
  return undefined;
}

/** Whether every entry chain falls back to the roots of a state, and all that its tagged names promise is there. */
function showsTree(observed: Observed, state: NodeState): boolean {
  return familyNames.every((family) => tableNames.every((table) => tableShows(observed, state, family, table)));
}

function tableShows(observed: Observed, state: NodeState, family: Family, table: TableName): boolean {
  const seen = observed[family]?.[table].chains;
  const rulesOf = (name: string): readonly string[] | undefined => seen?.get(name)?.rules;
  const wanted = tableOf(state, family, table);
  const roots = rootsOf(table, wanted);
  const sameRoots = entryNames[table].every((entry) => {
    const root = / -g (\S+)$/.exec(rulesOf(entry)?.findLast((rule) => !rule.includes(' --match-set ')) ?? '')?.[1];
    return root === roots.get(entry);
  });
  const spell = (rules: readonly string[] | undefined): string | undefined => rules?.map(canonicalRule).join('\n');
  return (
    sameRoots && [...wanted.chains].every(([name, rules]) => !isTagged(name) || spell(rules) === spell(rulesOf(name)))
  );
}

/** In the other layouts names do not say what is in them: the kernel must hold all of a state, apart from sysctls. */
async function showsExactly(observed: Observed, state: NodeState, ports: Ports): Promise<boolean> {
  // What holds no rules is found everywhere.
  if (familyNames.every((family) => tableOf(state, family, 'nat').chains.size === 0)) return false;
  const owned = chainNames(state);
  const desired = adaptDesired(state, observed, owned, ports.kernel);
  if (state.ipvs && !ports.kernel.ipvs) return false;
  const virtual = await lookVirtual(desired, owned, ports);
  const now: NodeState = { ...desired, families: ownState(observed, owned, desired) };
  return plan(now, desired, ports.kernel, virtual?.plan).steps.length === 0;
}

/** Ends what was on trial beside a generation: the switch goes off, and our chains that nothing needs are removed. */
async function takeBack(found: Generation, observed: Observed, ports: Ports): Promise<void> {
  await switchOff(ports);
  let owned = joinNames(chainNames(found.state), leakedChains(observed, found.state));
  for (const { generation } of ports.journal.remains()) {
    if (!isTree(generation.state)) continue;
    owned = joinNames(joinNames(owned, chainNames(generation.state)), baseChainParts(found.state, generation.state));
  }
  await restore({ ...found.state, sysctls: new Map() }, owned, ports);
  await ports.kernel.switch?.remove();
}
