import { canonicalAddress, compareText, type Family, type Json, objectOf } from '@sluice/netfilter';
import { canonicalRoutes, canonicalServers, canonicalSets, canonicalSysctls } from './canonical.ts';
import { tablesOf } from './nft-objects.ts';
import { serverLines, setLines } from './listings.ts';
import { readNftText } from './nft-tables.ts';
import {
  isShallow,
  type MissingPart,
  type NftObject,
  type Observation,
  observationLimits,
  type ObservationPart,
  parts,
  type RuleStoreName,
  type SavedRules,
} from './observation.ts';
import { readRuleText, savedRuleText } from './rule-lines.ts';
import { type PartText, type RuleFile, type RulePart, sortRules } from './saved-rules.ts';
import { doubtfulParts } from './saved-doubts.ts';
import { UnreadText } from './nft-text/unread-text.ts';

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

type SavedPart = keyof typeof savedFileNames;

/** The texts of tools, by part, as a machine or a ticket has them. */
export type ToolTexts = Readonly<Record<SavedPart, PartText>>;

/**
 * Chooses the texts out of the files of a directory. They may have passed through editors, and several tools may have written one.
 * @param files by name
 */
export function textsOf(files: ReadonlyMap<string, string>): ToolTexts {
  const chosen = new Map<SavedPart, { readonly file: string; readonly text: string }>();
  for (const part of Object.keys(savedFileNames) as readonly SavedPart[]) {
    const names: readonly string[] = savedFileNames[part];
    const file = names.find((name) => files.has(name));
    if (file !== undefined) chosen.set(part, { file, text: plainText(files.get(file) ?? '') });
  }
  const rules = sortRules(
    [...chosen].flatMap(([part, one]): RuleFile[] =>
      isRulePart(part) ? [{ part, ...one, text: savedRuleText(one.text) }] : [],
    ),
  );
  const textOf = (part: SavedPart): PartText => {
    const one = chosen.get(part);
    const found = isRulePart(part) ? rules.get(part) : one && wholeText(part, one);
    if (found) return found;
    const of = one ? `${one.file} has none of them` : `there is no ${savedFileNames[part].join(' or ')}`;
    return { why: `${of}: save \`${commands[part]}\`` };
  };
  return Object.fromEntries(Object.keys(savedFileNames).map((part) => [part, textOf(part as SavedPart)])) as ToolTexts;
}

const isRulePart = (part: SavedPart): part is RulePart => part.startsWith('rules-');

/** What `ip -c` and `grep` write to terminals: ESC and its number. */
const colours = new RegExp(`${String.fromCodePoint(27)}\\[[0-9;]*[mK]`, 'g');

/** Without what editors, terminals and other systems add: a byte order mark, `\r` at the ends of lines, colours. */
const plainText = (text: string): string =>
  text
    .replace(/^\uFEFF/, '')
    .replaceAll('\r\n', '\n')
    .replaceAll(colours, '');

/** A line of these that is cut may be one that means something else, and nothing but its end says that it is whole. */
const endsWithLine: ReadonlySet<SavedPart> = new Set(['sets', 'servers', 'addresses', 'routes', 'sysctls']);

function wholeText(part: SavedPart, { file, text }: { readonly file: string; readonly text: string }): PartText {
  const isJson = /^\s*[[{]/.test(text);
  const isCut = endsWithLine.has(part) && text !== '' && !isJson && !text.endsWith('\n');
  if (!isCut) return { text, file };
  return { why: `${file}: it may be truncated: its last line has no end; if it is whole, add a line break` };
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
  const read = <T>(part: SavedPart, parse: (text: string, file?: string) => T, otherwise: T): T => {
    const given = texts[part];
    if ('why' in given) {
      missing.push({ part, why: given.why });
      return otherwise;
    }
    try {
      if (given.text.includes('\0')) throw new UnreadText('it is not text in UTF-8');
      return parse(given.text, given.file);
    } catch (error) {
      missing.push({ part, why: whyUnread(error, given.file) });
      return otherwise;
    }
  };
  const stores = (['nft', 'legacy'] as const).flatMap((store) =>
    (['ipv4', 'ipv6'] as const).flatMap((family): readonly SavedRules[] => {
      const lines = read(partOf(store, family), readRuleText, undefined);
      return lines === undefined ? [] : [{ store, family, lines }];
    }),
  );
  const addresses = read('addresses', addressesOf, { bound: { ipv4: [], ipv6: [] }, interfaces: [] });
  const { tables, notFollowed } = read('nft-tables', nftTablesOf, { tables: [], notFollowed: [] });
  // What is dropped beneath IP comes to none of the other rules, before a move and after it.
  if (notFollowed.length > 0)
    missing.push({ part: 'nft-tables', why: `hooks of ${notFollowed.join(', ')} are not followed` });
  const sets = read('sets', (text) => canonicalSets(setLines(text)), []);
  const servers = read('servers', (text) => canonicalServers(serverLines(text)), []);
  const routes = read('routes', routesIn, []);
  const sysctls = read('sysctls', sysctlsIn, {});
  const { bound: serverAddresses, interfaces } = addresses;
  const found = { rules: stores, sets, servers, serverAddresses, interfaces, nftTables: tables, routes, sysctls };
  return {
    ...identity,
    ...found,
    missing: [...missing, ...doubtfulParts(found, texts, missing)].toSorted(
      (a, b) => parts.indexOf(a.part) - parts.indexOf(b.part),
    ),
  };
}

/** The part of an observation that has the rules of one store and family. */
export const partOf = (store: RuleStoreName, family: Family): `rules-${RuleStoreName}-${Family}` =>
  `rules-${store}-${family}`;

/** `nft.txt:17: it has the line …` */
function whyUnread(error: unknown, file: string | undefined): string {
  if (!(error instanceof UnreadText)) return `${place(file)}it is not what the tool prints`;
  return `${place(file, error.line)}${error.message}`;
}

const place = (file: string | undefined, line?: number): string =>
  [file ?? [], line ?? []].flat().join(':').replace(/.$/, '$&: ');

/** Tables, and the names of those beneath IP, which are not followed. */
function nftTablesOf(text: string, file?: string): ReturnType<typeof tablesOf> {
  const isEmpty = file?.endsWith('.json') === true && text.trim() === '';
  const objects = isEmpty || text.startsWith('{') ? objectsInJson(text, file) : readNftText(text);
  if (!objects.every((one) => isShallow(one)))
    throw new UnreadText(`it has an object nested deeper than ${observationLimits.nftDepthMax}`);
  if (file !== undefined) refusePartOfTables(text, objects);
  const { tables, notFollowed } = tablesOf(objects);
  if (tables.length > observationLimits.nftTablesMax) throw new UnreadText(`it has ${tables.length} tables`);
  return { tables, notFollowed };
}

/** Forms of `nft list` that leave out what decides, or print protocols as numbers. */
function refusePartOfTables(text: string, objects: readonly NftObject[]): void {
  const isNumeric = numericForm.test(text);
  const all = 'save `nft list ruleset`';
  if (isNumeric) throw new UnreadText(`it was printed with -n, which writes protocols as numbers: ${all} without it`);
  for (const name of ['kube-proxy', 'sluice']) {
    const of = objects.filter((one) => objectOf(Object.values(one)[0] as Json)['table'] === name);
    if (of.length === 0) continue;
    if (!of.some((one) => 'rule' in one)) throw new UnreadText(`table ${name} is listed without its rules: ${all}`);
    const isFilled = of.some(({ set, map }) => listedElements(set ?? map) > 0);
    if (!isFilled) throw new UnreadText(`the sets and maps of table ${name} have no elements: ${all} without -t`);
  }
}

const numericForm =
  /\bl4proto (?:6|17|132)\b|\bfib [\w .]+ type \d|"concat": ?\["[^"]+", ?(?:6|17|132), ?\d+\]|[\da-f] \. (?:6|17|132) \. \d/;

const listedElements = (value: unknown): number => [objectOf(value as Json)['elem'] ?? []].flat().length;

/** Of a node without tables the tool prints its version, so that a file without it is no listing. */
function objectsInJson(text: string, file: string | undefined): readonly NftObject[] {
  const { nftables = [] } = JSON.parse(text) as { readonly nftables?: readonly NftObject[] };
  if (file !== undefined && !nftables.some((object) => 'metainfo' in object))
    throw new UnreadText('it has no metainfo, with which `nft -j` begins');
  return nftables;
}

/** Of a machine an empty text is none of these tools'; a file is not what it printed. */
function refuseOther(text: string, file: string | undefined, form: RegExp, tool: string): void {
  if (file === undefined || form.test(text)) return;
  if (text.trim() === '') throw new UnreadText(`it is empty: save \`${tool}\``);
  throw new UnreadText(`it is not what \`${tool}\` prints`);
}

function routesIn(text: string, file?: string): Observation['routes'] {
  refuseOther(text, file, /^[^\s[{].* dev \S/m, 'ip route show table all');
  return canonicalRoutes(text);
}

function sysctlsIn(text: string, file?: string): Observation['sysctls'] {
  refuseOther(text, file, /^\s*(?:sysctl )?[a-z0-9_./-]+ ?[=:] ?\S/im, 'sysctl -a');
  return canonicalSysctls(text);
}

interface LinkAddresses {
  readonly ifname?: string;
  readonly addr_info?: readonly { readonly local?: string; readonly prefixlen?: number }[];
}

/** `ip -json addr show`, or the text of `ip addr`. */
function addressesOf(
  text: string,
  file?: string,
): {
  readonly bound: Observation['serverAddresses'];
  readonly interfaces: readonly string[];
} {
  const found = /^\s*\[/.test(text) ? fromJson(text) : fromText(text);
  if (file !== undefined && found.length === 0) throw new UnreadText('it has no address as `ip addr` prints them');
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
  const found = text.split('\n').flatMap((line): (readonly [string, string])[] => {
    // `ip -br addr`
    const [, brief = '', list = ''] =
      /^(\S+?)(?:@\S+)? +(?:UP|DOWN|UNKNOWN|LOWERLAYERDOWN|DORMANT)((?: +\S+)*) *$/.exec(line) ?? [];
    if (brief !== '') return list.split(/ +/).flatMap((one) => (/\/\d+$/.test(one) ? [[brief, one] as const] : []));
    // `ip -o addr` has a line for each address: `2: eth0    inet 192.0.2.11/24 …`.
    // A line of another tool, as of `ifconfig`, starts no interface.
    name = /^\d+: ([^:@\s]+)/.exec(line)?.[1] ?? (/^\S/.test(line) ? '' : name);
    const address = /^(?:\d+: \S+)?\s+inet6? (\S+)/.exec(line)?.[1];
    return address === undefined || name === '' ? [] : [[name, address]];
  });
  return found;
}
