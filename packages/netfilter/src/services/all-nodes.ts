import type { Family, TableName } from '../family.ts';
import { type FamilyProgram, emptyProgram } from '../link/program.ts';
import { chainOf } from '../rules/line.ts';
import { anyAddress } from '../nftables/frontend.ts';
import { nftOnAllNodes } from '../nftables/read-state.ts';
import { readServerLine } from '../virtual/read-ipvs.ts';
import { findSet } from '../rules/sets.ts';
import {
  type IpSet,
  type IpvsState,
  printReal,
  type RealServer,
  type VirtualServer,
  virtualKey,
} from '../virtual/values.ts';
import type { ForwardingState } from './services.ts';

/** The lines of a Service's files in one family, without guards. */
export type ServiceLines =
  | { readonly mode: 'iptables'; readonly rules: Readonly<Record<TableName, readonly string[]>> }
  | { readonly mode: 'ipvs'; readonly ipset: readonly string[]; readonly ipvs: readonly string[] }
  | { readonly mode: 'nftables'; readonly nft: readonly string[] };

/**
 * What the lines of a Service's files have on all nodes together, as a state whose Services can be described. No node has this state:
 * what excludes each other is side by side, node ports have no address, and tests for the values of a node are left out.
 */
export function onAllNodes(family: Family, lines: ServiceLines): ForwardingState {
  switch (lines.mode) {
    case 'iptables':
      return { families: { [family]: programOf(lines.rules) } };
    case 'ipvs':
      return { families: {}, ipvs: { ...serversIn(lines.ipvs, family), sets: setsIn(lines.ipset, family) } };
    case 'nftables':
      return { families: {}, nft: nftOnAllNodes(lines.nft) };
  }
}

/** The value of a variable is not a fact of the Service. */
const variableTest = / (?:! )?-[si] \$\{[^}]*\}\+?/g;

function programOf(rules: Readonly<Record<TableName, readonly string[]>>): FamilyProgram {
  const table = (name: TableName): FamilyProgram[TableName] => ({
    chains: Map.groupBy(
      rules[name].map((rule) => rule.replaceAll(variableTest, '')),
      chainOf,
    ),
    jumps: [],
  });
  return { ...emptyProgram, filter: table('filter'), nat: table('nat') };
}

/** An endpoint that has different weights on different nodes is there with each of them. */
function serversIn(lines: readonly string[], family: Family): Pick<IpvsState, 'virtualServers' | 'addresses'> {
  const read = lines.map((line) => readServerLine(line.replaceAll(/\$\{[^}]*\}/g, anyAddress[family])));
  const real = new Map<string, Map<string, RealServer>>();
  const servers = new Map<string, VirtualServer>();
  for (const line of read) {
    if ('error' in line || line.kind === 'timeouts') continue;
    const key = virtualKey(line.kind === 'real' ? line.of : line.server);
    const own = real.get(key) ?? new Map<string, RealServer>();
    real.set(key, own);
    if (line.kind === 'real') own.set(printReal(line.server), line.server);
    else servers.set(key, { ...line.server, real: own });
  }
  return { virtualServers: servers, addresses: { ipv4: [], ipv6: [] } };
}

function setsIn(lines: readonly string[], family: Family): IpvsState['sets'] {
  const sets = new Map<string, IpSet & { readonly entries: Set<string> }>();
  for (const line of lines) {
    const [, name = '', entry = ''] = line.split(' ');
    const known = findSet(name);
    if (known?.family !== family) continue;
    const set = sets.get(name) ?? { name, ...known, entries: new Set<string>() };
    set.entries.add(entry);
    sets.set(name, set);
  }
  return sets;
}
