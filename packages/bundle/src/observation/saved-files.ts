import { canonicalAddress, compareText, type Family } from '@sluice/netfilter';
import {
  canonicalRoutes,
  canonicalRules,
  canonicalServers,
  canonicalSets,
  canonicalSysctls,
  isOfServicePath,
} from './canonical.ts';
import { tablesOf } from './nft-objects.ts';
import { readNftText } from './nft-text/tables.ts';
import { UnreadWords } from './nft-text/words.ts';
import {
  type MissingPart,
  type NftObject,
  type Observation,
  observationLimits,
  type ObservationPart,
  parts,
  type RuleStoreName,
  type SavedRules,
} from './observation.ts';
import { isShallow } from './shallow.ts';

/** File names that are read with `--from DIR`, by part; the first that exists counts. README.md, "Saved outputs". */
export const savedFileNames = {
  'rules-nft-ipv4': ['iptables-nft-save.txt', 'iptables-save.txt', 'iptables.txt'],
  'rules-nft-ipv6': ['ip6tables-nft-save.txt', 'ip6tables-save.txt', 'ip6tables.txt'],
  'rules-legacy-ipv4': ['iptables-legacy-save.txt'],
  'rules-legacy-ipv6': ['ip6tables-legacy-save.txt'],
  sets: ['ipset.txt', 'ipset-save.txt'],
  servers: ['ipvsadm.txt', 'ipvsadm-save.txt'],
  addresses: ['ip-addr.json', 'ip-addr.txt'],
  'nft-tables': ['nft.json', 'nft.txt', 'nft-ruleset.txt'],
  routes: ['ip-route.txt'],
  sysctls: ['sysctl.txt', 'sysctl-a.txt'],
} as const satisfies Readonly<Partial<Record<ObservationPart, readonly string[]>>>;

const commands: Readonly<Record<keyof typeof savedFileNames, string>> = {
  'rules-nft-ipv4': 'iptables-nft-save',
  'rules-nft-ipv6': 'ip6tables-nft-save',
  'rules-legacy-ipv4': 'iptables-legacy-save',
  'rules-legacy-ipv6': 'ip6tables-legacy-save',
  sets: 'ipset save',
  servers: 'ipvsadm -S -n',
  addresses: 'ip -json addr show',
  'nft-tables': 'nft -j list ruleset',
  routes: 'ip route show table all; ip -6 route show table all',
  sysctls: 'sysctl -a',
};

/** The texts of tools, by part, as a machine or a ticket has them. A part without a text says why. */
export type ToolTexts = Readonly<
  Record<keyof typeof savedFileNames, { readonly text: string } | { readonly why: string }>
>;

/**
 * Chooses the texts out of the files of a directory.
 * @param files by name
 */
export function textsOf(files: ReadonlyMap<string, string>): ToolTexts {
  const textOf = (part: keyof typeof savedFileNames): { text: string } | { why: string } => {
    const names: readonly string[] = savedFileNames[part];
    const text = names.map((name) => files.get(name)).find((one) => one !== undefined);
    if (text !== undefined) return { text };
    return { why: `there is no ${names.join(' or ')}: save \`${commands[part]}\`` };
  };
  const all = Object.keys(savedFileNames) as readonly (keyof typeof savedFileNames)[];
  return Object.fromEntries(all.map((part) => [part, textOf(part)])) as unknown as ToolTexts;
}

/** Saved outputs besides, without which nothing is missing: of `kube-proxy --version`, `Kubernetes v1.31.4`; of `conntrack -L`. */
export const proxyVersionFileName = 'kube-proxy-version.txt';
export const connectionsFileName = 'conntrack.txt';

/** What an observation says besides the texts of tools. */
export type ObservedIdentity = Pick<Observation, 'node' | 'bootId' | 'tools' | 'host' | 'connections'>;

/**
 * Makes an observation of the texts of tools.
 * @param identity without `host` the part of that name is missing
 */
export function observationOf(identity: ObservedIdentity, texts: ToolTexts): Observation {
  const missing: MissingPart[] = identity.host ? [] : [{ part: 'host', why: 'only outputs of tools were saved' }];
  const read = <T>(part: keyof typeof savedFileNames, parse: (text: string) => T, otherwise: T): T => {
    const given = texts[part];
    if ('why' in given) {
      missing.push({ part, why: given.why });
      return otherwise;
    }
    try {
      return parse(given.text);
    } catch (error) {
      missing.push({
        part,
        why:
          error instanceof UnreadText || error instanceof UnreadWords
            ? error.message
            : 'it is not what the tool prints',
      });
      return otherwise;
    }
  };
  const stores = (['nft', 'legacy'] as const).flatMap((store) =>
    (['ipv4', 'ipv6'] as const).flatMap((family): readonly SavedRules[] => {
      const lines = read(partOf(store, family), rulesOf, undefined);
      return lines === undefined ? [] : [{ store, family, lines }];
    }),
  );
  const addresses = read('addresses', addressesOf, { bound: { ipv4: [], ipv6: [] }, interfaces: [] });
  const tables = read('nft-tables', nftTablesOf, []);
  const sets = read('sets', canonicalSets, []);
  const servers = read('servers', canonicalServers, []);
  const routes = read('routes', canonicalRoutes, []);
  const sysctls = read('sysctls', canonicalSysctls, {});
  return {
    ...identity,
    rules: stores,
    sets,
    servers,
    serverAddresses: addresses.bound,
    interfaces: addresses.interfaces,
    nftTables: tables,
    routes,
    sysctls,
    missing: missing.toSorted((a, b) => parts.indexOf(a.part) - parts.indexOf(b.part)),
  };
}

/** The part of an observation that has the rules of one store and family. */
export const partOf = (store: RuleStoreName, family: Family): `rules-${RuleStoreName}-${Family}` =>
  `rules-${store}-${family}`;

/** Why a text is not what its tool prints. */
class UnreadText extends Error {
  override readonly name = 'UnreadText';
}

function rulesOf(text: string): readonly string[] {
  // `# Table `filter' is incompatible, use 'nft' tool.`: iptables-nft-save leaves out what iptables did not make.
  const left = text.split('\n').find((line) => /^# Table .*\bincompatible\b/.test(line));
  if (left !== undefined) throw new UnreadText(`the tool says ${JSON.stringify(left.slice(2, 102))}`);
  const lines = canonicalRules(text);
  const odd = lines.find((line) => !/^(?:\*\w+|:\S+ \S+|-A \S.*|COMMIT)$/.test(line));
  if (odd !== undefined) throw new UnreadText(`it has the line ${JSON.stringify(odd.slice(0, 100))}`);
  const opened = lines.filter((line) => line.startsWith('*')).length;
  const closed = lines.filter((line) => line === 'COMMIT').length;
  if (opened !== closed) throw new UnreadText('it is truncated: a table has no COMMIT');
  return lines;
}

function nftTablesOf(text: string): Observation['nftTables'] {
  const objects = text.startsWith('{') ? objectsInJson(text) : readNftText(text);
  if (!objects.every((one) => isShallow(one)))
    throw new UnreadText(`it has an object nested deeper than ${observationLimits.nftDepthMax}`);
  const { tables, notFollowed } = tablesOf(objects);
  if (notFollowed.length > 0) throw new UnreadText(`hooks of ${notFollowed.join(', ')} are not followed`);
  if (tables.length > observationLimits.nftTablesMax) throw new UnreadText(`it has ${tables.length} tables`);
  return tables;
}

const objectsInJson = (text: string): readonly NftObject[] =>
  (JSON.parse(text) as { readonly nftables?: readonly NftObject[] }).nftables ?? [];

interface LinkAddresses {
  readonly ifname?: string;
  readonly addr_info?: readonly { readonly local?: string; readonly prefixlen?: number }[];
}

/** `ip -json addr show`, or the text of `ip addr`. */
function addressesOf(text: string): {
  readonly bound: Observation['serverAddresses'];
  readonly interfaces: readonly string[];
} {
  const found = /^\s*\[/.test(text) ? fromJson(text) : fromText(text);
  const bound = (family: Family): readonly string[] =>
    found
      .flatMap(([name, address]) =>
        name === 'kube-ipvs0' ? [canonicalAddress(address.split('/')[0] ?? '') ?? ''] : [],
      )
      .filter((address) => address !== '' && address.includes(':') === (family === 'ipv6'))
      .filter((address) => !address.startsWith('fe80:'))
      .toSorted(compareText);
  return {
    bound: { ipv4: bound('ipv4'), ipv6: bound('ipv6') },
    interfaces: found
      .flatMap(([name, address]) => (name === 'kube-ipvs0' ? [] : [`${name} ${address}`]))
      .toSorted(compareText),
  };
}

const fromJson = (text: string): readonly (readonly [string, string])[] =>
  (JSON.parse(text) as readonly LinkAddresses[]).flatMap(({ ifname = '', addr_info: list = [] }) =>
    list.flatMap(({ local, prefixlen }) =>
      local === undefined ? [] : [[ifname, `${local}/${prefixlen ?? ''}`] as const],
    ),
  );

function fromText(text: string): readonly (readonly [string, string])[] {
  let name = '';
  return text.split('\n').flatMap((line): (readonly [string, string])[] => {
    name = /^\d+: ([^:@]+)/.exec(line)?.[1] ?? name;
    const address = /^\s+inet6? (\S+)/.exec(line)?.[1];
    return address === undefined ? [] : [[name, address]];
  });
}

export { isOfServicePath };
