// @module-tag test
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isProblem, type Observation, observationOf, readObservation, type SavedRules, textsOf } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { minors } from './binaries.ts';
import { recordedFolder } from './recorded.ts';

/** What kube-proxy in mode ipvs left in the guest, as files of a ticket. */

function recorded(minor: string): Observation {
  const file = `kube-proxy-${minor}.json`;
  const seen = readObservation(file, readFileSync(join(recordedFolder, file), 'utf8'));
  if (isProblem(seen)) throw new Error(seen.message);
  return seen;
}

/** With counters, as `iptables-save -c` has them. */
const rulesText = ({ lines }: SavedRules): string =>
  lines
    .map((line) => line.replace(/^:.*/, '$& [12:720]').replace(/^-A/, '[3:180] -A'))
    .map((line) => `${line}\n`)
    .join('');

/** `ipset list` of what `ipset save` printed. */
function listedSets(lines: readonly string[]): string {
  const entries = Map.groupBy(lines, (line) => line.split(' ')[1]);
  return [...entries]
    .map(([name, of]) => {
      const [, type, header] =
        /^create \S+ (\S+) (.*)$/.exec(of.find((line) => line.startsWith('create ')) ?? '') ?? [];
      const members = of.filter((line) => line.startsWith('add ')).map((line) => line.split(' ').slice(2).join(' '));
      const head = `Name: ${name}\nType: ${type}\nRevision: 5\nHeader: ${header} hashsize 1024\nReferences: 1\n`;
      return `${head}Number of entries: ${members.length}\nMembers:\n${members.map((one) => `${one}\n`).join('')}`;
    })
    .join('\n');
}

/** `ipvsadm -L -n` of what `ipvsadm -S -n` printed. */
function listedServers(lines: readonly string[]): string {
  const protocols: Readonly<Record<string, string>> = { '-t': 'TCP', '-u': 'UDP', '--sctp-service': 'SCTP' };
  const listed = lines.map((line) => {
    const [verb, protocol = '', place, , other, ...rest] = line.split(' ');
    if (verb === '-a') return `  -> ${`${other}`.padEnd(28)} Masq    ${rest.at(-1)}      0          7         `;
    const seconds = rest.indexOf('-p');
    return `${protocols[protocol]?.padEnd(4)} ${place} ${other}${seconds < 0 ? '' : ` persistent ${rest[seconds + 1]}`}`;
  });
  const head = ['IP Virtual Server version 1.2.1 (size=4096)', 'Prot LocalAddress:Port Scheduler Flags'];
  return [...head, '  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn', ...listed, ''].join('\n');
}

/** `ip addr` of the addresses of `kube-ipvs0`. */
const addressesText = ({ ipv4, ipv6 }: Observation['serverAddresses']): string =>
  [
    '4: kube-ipvs0: <BROADCAST,NOARP> mtu 1500 qdisc noop state DOWN group default',
    ...ipv4.map((one) => `    inet ${one}/32 scope global kube-ipvs0\n       valid_lft forever preferred_lft forever`),
    ...ipv6.map((one) => `    inet6 ${one}/128 scope global`),
    '',
  ].join('\n');

function savedOf(seen: Observation, isListed: boolean): ReadonlyMap<string, string> {
  const tools = {
    'nft ipv4': 'iptables',
    'nft ipv6': 'ip6tables',
    'legacy ipv4': 'iptables-legacy',
    'legacy ipv6': 'ip6tables-legacy',
  };
  const rules = seen.rules.map((of): [string, string] => {
    const name = tools[`${of.store} ${of.family}`];
    return [`${name}-save.txt`, rulesText(of)];
  });
  const plain = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join('');
  const files = new Map([
    ...rules,
    ['ipset.txt', isListed ? listedSets(seen.sets) : plain(seen.sets)],
    ['ipvsadm.txt', isListed ? listedServers(seen.servers) : plain(seen.servers)],
    ['ip-addr.txt', addressesText(seen.serverAddresses)],
  ]);
  return isListed ? new Map([...files].map(([name, text]) => [name, text.replaceAll('\n', '\r\n')])) : files;
}

test.each(minors.flatMap((minor) => [[minor, 'tools'] as const, [minor, 'readers'] as const]))(
  'saved outputs of kube-proxy %s in mode ipvs, in the forms for %s, say what was observed',
  (minor, whom) => {
    const seen = recorded(minor);
    expect(seen.servers.length).toBeGreaterThan(200);
    const { rules, sets, servers, serverAddresses } = observationOf(
      { node: seen.node, tools: {} },
      textsOf(savedOf(seen, whom === 'readers')),
    );
    const { rules: before } = seen;
    expect({ rules, sets, servers, serverAddresses }).toEqual({
      rules: before,
      sets: seen.sets,
      servers: seen.servers,
      serverAddresses: seen.serverAddresses,
    });
  },
);
