import { compareText, tableNames, type TableProgram } from '@sluice/bundle';
import { limits } from '../limits.ts';
import type { Lane } from '../rollout/ports.ts';
import { familiesOf, familyNames, type NodeState, tableOf } from '../rollout/state.ts';
import { entryNames, isTagged, isTree } from './entries.ts';

/**
 * Whether a change only brings and takes endpoints of Services that are served already, within bounds: then it is no release that has to
 * be tried. Anything that is not understood as that is a release.
 *
 * - Services, ports, addresses and policies are in the dispatch trees, in the chains of load balancers and in filter: these lead to the
 *   same Services by the same rules.
 * - A Service keeps endpoints, loses at most `limits.endpointsLostShareMax` of them at once, and their port and rules stay what they were.
 * @param from what stands
 */
export function laneOf(from: NodeState, goal: NodeState): Lane {
  if (!isTree(from) || !isTree(goal) || from.ipvs || goal.ipvs || !sameSettings(from, goal)) return 'release';
  for (const family of familyNames) {
    for (const table of tableNames) {
      const [old, fresh] = [tableOf(from, family, table), tableOf(goal, family, table)];
      if (!sameAround(old, fresh, entryNames[table]) || !sameServices(old, fresh)) return 'release';
    }
  }
  return 'endpoints';
}

function sameSettings(a: NodeState, b: NodeState): boolean {
  const settings = ({ sysctls }: NodeState): string =>
    [...sysctls]
      .map(([key, value]) => `${key} ${value}`)
      .toSorted(compareText)
      .join();
  return (
    familiesOf(a).join() === familiesOf(b).join() &&
    settings(a) === settings(b) &&
    a.conntrackHashSize === b.conntrackHashSize
  );
}

/** Jumps and fixtures: what every packet meets. Entry chains lead to another root, which is looked at with the trees. */
function sameAround(a: TableProgram, b: TableProgram, entries: readonly string[]): boolean {
  const isAround = (name: string): boolean => !isTagged(name) && !entries.includes(name);
  const around = ({ chains, jumps }: TableProgram): string =>
    [
      ...jumps,
      ...[...chains]
        .flatMap(([name, rules]) => (isAround(name) ? [`:${name}\n${rules.join('\n')}`] : []))
        .toSorted(compareText),
    ].join('\n');
  return around(a) === around(b);
}

const kindOf = (name: string): string => /^SLU-(SVC|SVL|SEP|GRP)/.exec(name)?.[1] ?? 'dispatch';
const withoutTag = (name: string): string => name.replace(/\.[0-9a-z]{2}$/, '');

/** The chains that only one of two programs has. */
function onlyIn(one: TableProgram, other: TableProgram): readonly (readonly [string, readonly string[]])[] {
  return [...one.chains].filter(([name]) => isTagged(name) && !other.chains.has(name));
}

function sameServices(old: TableProgram, fresh: TableProgram): boolean {
  const [gone, come] = [onlyIn(old, fresh), onlyIn(fresh, old)];
  return sameDispatch(gone, come) && sameForms(old, come) && sameShares(old, fresh, gone, come);
}

type Chains = ReturnType<typeof onlyIn>;

/** Every rule that leads to a Service, by itself: where it stands in a tree follows from all of them. */
function sameDispatch(gone: Chains, come: Chains): boolean {
  const rules = (chains: Chains): string =>
    chains
      .filter(([name]) => kindOf(name) === 'dispatch')
      .flatMap(([name, lines]) => lines.map((line) => `${plainName(name)}${plain(line.slice(3 + name.length))}`))
      .toSorted(compareText)
      .join('\n');
  return rules(gone) === rules(come);
}

const plainName = (name: string): string => (name.startsWith('SLUICE-') ? name.slice(0, 8) : withoutTag(name));
const plain = (rule: string): string =>
  rule.replace(/ -([jg]) (SLU(?:ICE)?-\S+)$/, (_all, go: string, name: string) => ` -${go} ${plainName(name)}`);

/** Rules of endpoints and of the chains that choose one have forms that were there before: a port or an affinity is a release. */
function sameForms(old: TableProgram, come: Chains): boolean {
  const fresh = come
    .filter(([name]) => kindOf(name) !== 'dispatch')
    .flatMap(([name, lines]) => lines.map((line) => form(name, line)));
  if (fresh.length === 0) return true;
  const known = new Set<string>();
  for (const [name, lines] of old.chains)
    if (isTagged(name) && kindOf(name) !== 'dispatch') for (const line of lines) known.add(form(name, line));
  return fresh.every((one) => known.has(one));
}

/** A rule of a Service without what differs between its endpoints. */
function form(name: string, line: string): string {
  const own = kindOf(name) === 'SEP' || kindOf(name) === 'GRP' ? kindOf(name) : withoutTag(name);
  const words = line
    .slice(3 + name.length)
    .replace(/ -m statistic --mode random --probability \S+/, '')
    .replace(/ -s \S+/, ' -s *')
    .replace(/ --name \S+/, ' --name *')
    .replace(/--to-destination \S+:(\d+)/, '--to-destination *:$1')
    .replace(/ -([jg]) SLU-(SEP|GRP)\S+$/, ' -$1 endpoint');
  return `${own}${words}`;
}

/** Each Service that changes is in both programs and keeps enough of its endpoints. */
function sameShares(old: TableProgram, fresh: TableProgram, gone: Chains, come: Chains): boolean {
  const services = (chains: Chains): ReadonlyMap<string, string> =>
    new Map(chains.filter(([name]) => /^SV[CL]$/.test(kindOf(name))).map(([name]) => [withoutTag(name), name]));
  const [before, after] = [services(gone), services(come)];
  if (before.size !== after.size) return false;
  for (const [service, name] of before) {
    const next = after.get(service);
    if (next === undefined) return false;
    const [had, has] = [endpointsOf(name, old), endpointsOf(next, fresh)];
    const lost = [...had].filter((one) => !has.has(one)).length;
    if (has.size === 0 || lost > had.size * limits.endpointsLostShareMax) return false;
  }
  return true;
}

/** Where the chain of a Service leads, through groups. */
function endpointsOf(chain: string, table: TableProgram, found = new Set<string>()): ReadonlySet<string> {
  for (const line of table.chains.get(chain) ?? []) {
    const target = / -[jg] (SLU-(?:SEP|GRP)\S+)$/.exec(line)?.[1];
    if (target?.startsWith('SLU-SEP')) found.add(withoutTag(target));
    else if (target !== undefined) endpointsOf(target, table, found);
  }
  return found;
}
