import { createHash } from 'node:crypto';
import { compareText, findSet, isProxysChain } from '@sluice/netfilter';
import type { Observation, ObservedState } from './observation.ts';

/**
 * The SHA-256 of what was observed, lower-case hex: of rules, sets, servers, their addresses, tables, sysctls and host facts. Equal for
 * equal kernel states, of which the same parts could be read. Routes and addresses of interfaces are left out, because those of pods come and go.
 */
export function observedDigest(state: ObservedState & Pick<Observation, 'missing'>): string {
  const { missing, host, rules, sets, servers, serverAddresses, nftTables, sysctls } = state;
  const hash = createHash('sha256');
  const add = (name: string, lines: readonly string[]): void => {
    hash.update(`${name} ${lines.length}\n`);
    for (const line of lines) hash.update(`${line}\n`);
  };
  add('host', host ? [JSON.stringify([host.kernelRelease, host.tcpBeLiberal])] : []);
  for (const { store, family, lines } of rules) add(`rules ${store} ${family}`, lines);
  add('sets', sets);
  add('servers', servers);
  for (const family of ['ipv4', 'ipv6'] as const) add(`addresses ${family}`, serverAddresses[family]);
  for (const { family, name, objects } of nftTables)
    add(
      `table ${family} ${name}`,
      objects.map((object) => JSON.stringify(object)),
    );
  add(
    'sysctls',
    Object.entries(sysctls)
      .toSorted(([a], [b]) => compareText(a, b))
      .map(([name, value]) => `${name} = ${value}`),
  );
  // A part that was not read is not one without content. Missing stores have no lines above, and routes and addresses are left out.
  add(
    'missing',
    missing.flatMap(({ part }) => (part === 'sets' || part === 'servers' || part === 'nft-tables' ? [part] : [])),
  );
  return hash.digest('hex');
}

/**
 * The digest of what was observed but for kube-proxy's own rules, sets, virtual servers and table: equal for two states between which
 * kube-proxy alone changed something.
 */
export function digestWithoutProxy(state: ObservedState & Pick<Observation, 'missing'>): string {
  const { rules, sets, nftTables } = state;
  return observedDigest({
    ...state,
    rules: rules.map((one) => ({ ...one, lines: one.lines.filter((line) => !isOfProxy(line)) })),
    // Network policies of kube-router have sets of this prefix, too: KUBE-SRC-…, KUBE-DST-….
    sets: sets.filter((line) => findSet(line.split(' ')[1] ?? '') === undefined),
    servers: foreignServers(state),
    serverAddresses: { ipv4: [], ipv6: [] },
    nftTables: nftTables.filter(({ name }) => name !== 'kube-proxy'),
  });
}

/** `:KUBE-SVC-… -`, `-A KUBE-SVC-… …`; a jump to them out of another chain is not. */
function isOfProxy(line: string): boolean {
  const [, chain = ''] = /^(?::|-A )(\S+)/.exec(line) ?? [];
  return isProxysChain(chain);
}

/** Virtual servers of other programs, such as keepalived: at addresses that are not kube-proxy's, and at no node port. */
function foreignServers({ servers, serverAddresses, sets }: ObservedState): readonly string[] {
  if (servers.length === 0) return [];
  const bound = new Set([...serverAddresses.ipv4, ...serverAddresses.ipv6]);
  const places = new Set(sets.flatMap(placeOfEntry));
  return servers.filter((line) => {
    const [, option = '', name = '', port = ''] = /^-[Aa] (\S+) (\S+):(\d+)/.exec(line) ?? [];
    const address = name.replaceAll(/[[\]]/g, '');
    const ofNode = `${protocols[option]}:${port}`;
    return !bound.has(address) && !places.has(`${address},${ofNode}`) && !places.has(ofNode);
  });
}

const protocols: Readonly<Record<string, string>> = { '-t': 'tcp', '-u': 'udp', '--sctp-service': 'sctp' };

/** `10.96.0.10,tcp:80`, or `tcp:30080` at any address of the node, of an entry of kube-proxy's sets that names a frontend. */
function placeOfEntry(line: string): readonly string[] {
  const [, name = '', entry = ''] = /^add (\S+) (\S+)/.exec(line) ?? [];
  const set = findSet(name);
  // Entries of KUBE-LOOP-BACK name endpoints.
  if (!set || set.key === 'KUBE-LOOP-BACK') return [];
  if (set.type !== 'bitmap:port') return [entry.split(',').slice(0, 2).join(',')];
  const [, protocol] = /-(TCP|UDP)$/.exec(set.key) ?? [];
  return protocol === undefined ? [] : [`${protocol.toLowerCase()}:${entry}`];
}
