import { canonicalRule, type Family, type TableName, tableNames } from '@sluice/netfilter';
import type { Outcome } from '../ports/outcome.ts';
import { isBare } from './bare.ts';
import { adaptDesired, ownState } from '../plan/ownership.ts';
import { plan } from '../plan/plan.ts';
import type { Generation } from '../ports/journal.ts';
import type { Ports } from '../ports/ports.ts';
import { restore } from '../transaction/restore.ts';
import { chainNames, familyNames, joinNames, type NodeState, type Observed, tableOf } from '../ports/node-state.ts';
import { planVirtual } from '../plan/virtual.ts';
import { switchOff } from '../transaction/roll-back.ts';
import { baseChainParts } from '../plan/side-by-side.ts';
import { entryNames, isTagged, isTree, rootsOf } from '../plan/entries.ts';
import { leakedChains } from '../plan/leaked-chains.ts';

/**
 * Replaces a journal both of whose slots are damaged. The rules in the kernel are trusted: if a stored generation is the one that the
 * kernel falls back to, it becomes active, and a release in probation is rolled back. If the kernel holds no rules, as after a boot, the
 * generation that was last written down as confirmed becomes active. Otherwise the origin of the rules is unknown: nothing changes, and
 * the node stays halted.
 * @param families those that the node has tools for
 * @returns the outcome; undefined if the journal is not lost, or stays lost
 */
export async function rescue(families: readonly Family[], ports: Ports): Promise<Outcome | undefined> {
  const { journal, kernel, report } = ports;
  const { lost } = journal;
  if (lost === undefined) return undefined;
  const observed = await kernel.observe(families);
  const bare = await isBare(observed, ports);
  const found = bare ? lastActive(ports) : await recognised(observed, ports);
  if (!found) return undefined;
  if (!bare && isTree(found.state)) await takeBack(found, observed, ports);
  const why = bare ? 'the last confirmed one' : 'the one in the kernel';
  const because = `${lost}: generation ${found.number}, ${why}, is active now; quarantined versions and the values of sysctls before Sluice are lost`;
  await journal.rescue(found, because);
  report('journal-rescued', { generation: found.number, version: found.version, bare });
  return { kind: 'rolled-back', because };
}

function lastActive({ journal }: Pick<Ports, 'journal'>): Generation | undefined {
  for (const one of journal.storedGenerations()) return one.wasActive ? one.generation : undefined;
  return undefined;
}

/** The stored generation whose rules are in the kernel. */
async function recognised(observed: Observed, ports: Ports): Promise<Generation | undefined> {
  for (const { generation } of ports.journal.storedGenerations()) {
    const { state } = generation;
    if (isTree(state) ? showsTree(observed, state) : await showsExactly(observed, state, ports)) return generation;
  }
  return undefined;
}

/** Whether every entry chain falls back to the roots of a state, and the kernel has all its tagged chains with their rules. */
function showsTree(observed: Observed, state: NodeState): boolean {
  return familyNames.every((family) => tableNames.every((table) => tableShows(observed, state, family, table)));
}

function tableShows(observed: Observed, state: NodeState, family: Family, table: TableName): boolean {
  const chains = observed[family]?.[table].chains;
  const rulesOf = (name: string): readonly string[] | undefined => chains?.get(name)?.rules;
  const expected = tableOf(state, family, table);
  const roots = rootsOf(table, expected);
  const sameRoots = entryNames[table].every((entry) => {
    const root = / -g (\S+)$/.exec(rulesOf(entry)?.findLast((rule) => !rule.includes(' --match-set ')) ?? '')?.[1];
    return root === roots.get(entry);
  });
  const spell = (rules: readonly string[] | undefined): string | undefined => rules?.map(canonicalRule).join('\n');
  return (
    sameRoots && [...expected.chains].every(([name, rules]) => !isTagged(name) || spell(rules) === spell(rulesOf(name)))
  );
}

/** In the other layouts names do not identify content: the kernel must hold the whole state, except sysctls. */
async function showsExactly(observed: Observed, state: NodeState, ports: Ports): Promise<boolean> {
  // A state without rules would match any kernel.
  if (familyNames.every((family) => tableOf(state, family, 'nat').chains.size === 0)) return false;
  const owned = chainNames(state);
  const desired = adaptDesired(state, observed, owned, ports.kernel);
  if (state.ipvs && !ports.kernel.ipvs) return false;
  const virtual = await planVirtual(desired, owned, ports);
  const now: NodeState = { ...desired, families: ownState(observed, owned, desired) };
  return plan(now, desired, ports.kernel, virtual?.plan).steps.length === 0;
}

/** Rolls back a release in probation: turns the switch off, and removes our chains that the generation does not need. */
async function takeBack(found: Generation, observed: Observed, ports: Ports): Promise<void> {
  await switchOff(ports);
  let owned = joinNames(chainNames(found.state), leakedChains(observed, found.state));
  for (const { generation } of ports.journal.storedGenerations()) {
    if (!isTree(generation.state)) continue;
    owned = joinNames(joinNames(owned, chainNames(generation.state)), baseChainParts(found.state, generation.state));
  }
  await restore({ ...found.state, sysctls: new Map() }, owned, ports);
  await ports.kernel.switch?.remove();
}
