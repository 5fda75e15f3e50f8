import { createHash } from 'node:crypto';
import { compareText } from '@sluice/netfilter';
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
