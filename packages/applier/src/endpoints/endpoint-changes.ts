import { compareText, type Family, serviceKeyOf, type TableProgram, type VirtualServer } from '@sluice/netfilter';
import { familyNames, type NodeState, tableOf } from '../ports/node-state.ts';
import { serving } from './overlay-servers.ts';
import { changedChains } from './rule-differences.ts';
import { isService, readService, withoutTag } from './service-rules.ts';

/** The endpoints of one Service in two states. */
export interface EndpointChange {
  /** The same in every state of one layout and mode: `ipv4 SLU-SVC-JHDHFGEGLBNOLDNC`, in mode ipvs `10.96.0.10:80/TCP`. */
  readonly key: string;
  /** `shop/web:http`; in mode ipvs, where rules do not name Services, the key. */
  readonly service: string;
  /** Each as `address:port`, sorted. */
  readonly before: readonly string[];
  readonly after: readonly string[];
}

/** The Services whose endpoints differ, sorted by key. */
export function endpointChanges(from: NodeState, to: NodeState): readonly EndpointChange[] {
  const inTables = familyNames.flatMap((family) => tableChanges(family, from, to));
  return [...inTables, ...serverChanges(from, to)].toSorted((a, b) => compareText(a.key, b.key));
}

function tableChanges(family: Family, from: NodeState, to: NodeState): readonly EndpointChange[] {
  const [own, other] = [tableOf(from, family, 'nat'), tableOf(to, family, 'nat')];
  const { removed, added } = changedChains(own, other);
  const before = new Map(removed.filter(isService).map((name) => [withoutTag(name), name]));
  const after = new Map(added.filter(isService).map((name) => [withoutTag(name), name]));
  const names = [...new Set([...before.keys(), ...after.keys()])];
  return names.map((name) => {
    const [had, has] = [before.get(name), after.get(name)];
    return {
      key: `${family} ${name}`,
      service: (has && serviceOf(has, other)) ?? (had && serviceOf(had, own)) ?? name,
      before: endpointsOf(had, own),
      after: endpointsOf(has, other),
    };
  });
}

const endpointsOf = (chain: string | undefined, table: TableProgram): readonly string[] =>
  chain === undefined ? [] : [...(readService(chain, table)?.endpoints.keys() ?? [])].toSorted(compareText);

/** The key on a rule that leads to the chain of a Service. */
function serviceOf(chain: string, table: TableProgram): string | undefined {
  for (const rules of table.chains.values()) {
    const found = rules.find((rule) => rule.endsWith(` -j ${chain}`));
    const name = found && serviceKeyOf(found);
    if (name !== undefined) return name;
  }
  return undefined;
}

function serverChanges(from: NodeState, to: NodeState): readonly EndpointChange[] {
  const none: ReadonlyMap<string, VirtualServer> = new Map();
  const [own, other] = [from.ipvs?.virtualServers ?? none, to.ipvs?.virtualServers ?? none];
  return [...new Set([...own.keys(), ...other.keys()])].flatMap((key) => {
    const [had, has] = [own.get(key), other.get(key)];
    if (had === has) return [];
    const realOf = (server: VirtualServer | undefined): readonly string[] =>
      server ? [...serving(server).real.keys()].toSorted(compareText) : [];
    const [before, after] = [realOf(had), realOf(has)];
    return before.join() === after.join() ? [] : [{ key, service: key, before, after }];
  });
}

/** How many Services a message names. */
const namedMax = 5;

/** `shop/web:http (10.244.0.2:8080 removed, 10.244.0.9:8080 added), 3 more Services` */
export function printEndpointChanges(changes: readonly EndpointChange[]): string {
  const named = changes.slice(0, namedMax).map(({ service, before, after }) => {
    const removed = before.filter((one) => !after.includes(one)).map((one) => `${one} removed`);
    const added = after.filter((one) => !before.includes(one)).map((one) => `${one} added`);
    return `${service} (${shortened([...removed, ...added]).join(', ')})`;
  });
  const more = changes.length - named.length;
  return [...named, ...(more > 0 ? [`${more} more Services`] : [])].join(', ');
}

const shortened = (parts: readonly string[]): readonly string[] =>
  parts.length <= namedMax ? parts : [...parts.slice(0, namedMax), `${parts.length - namedMax} more`];
