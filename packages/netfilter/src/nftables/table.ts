import { families, type Family } from '../family.ts';
import { anyAddress } from './frontend.ts';

/** What the table depends on. Everything else about a node or a Service is elements. */
export interface NftTableOptions {
  /** How traffic of pods is recognised: by its source address (sets `pods` and `keep`), or by the interface that it comes from. */
  readonly detector: 'address' | { readonly interface: string };
  /** Masquerades all traffic to ClusterIPs, that of pods too. */
  readonly masqueradeAll: boolean;
  /** Refuses TCP with a reset. The kernel limits the rate of ICMP errors, with which it refuses else. */
  readonly tcpReset?: boolean;
  /** How many clients of sticky frontends are remembered in each family; default: `affinityClientsDefault`. */
  readonly affinityClients?: number;
  /** Counts new connections of each endpoint, in the elements of its maps. */
  readonly endpointCounters?: boolean;
  /** Node ports on loopback addresses: refused like in kube-proxy 1.38, or served in IPv4 alone. Absent: left to programs of the node. */
  readonly localhost?: LocalhostNodePorts;
  /** `sluiced` listens for TCP on ::1 at node ports: the table leaves that to it. Only with `localhost`. */
  readonly localhostListener?: boolean;
}

export type LocalhostNodePorts = 'refused' | 'served';

/** nftables-design.md, section 4: clients of all frontends, about 150 bytes each when they are remembered. */
export const affinityClientsDefault = 1_048_576;

export const nftTableName = 'inet sluice';

/**
 * The texts of the table that `sluice` has written, the newest last. All mean the same where no other program translates packets of
 * Services: old ones are read, from bundles and from kernels, and the newest is loaded.
 */
export const tableEditions = [1, 2, 3, 4] as const;
type TableEdition = (typeof tableEditions)[number];

/** What is rendered and loaded. A change of the text is another number. */
const tableEdition: TableEdition = 4;

/** Where the newest edition translates destinations. */
export const nftDnatPriority = -101;

/** The words of a family in rules, and the suffix of its sets, maps and chains. */
interface Words {
  readonly n: '4' | '6';
  readonly ip: 'ip' | 'ip6';
  readonly type: 'ipv4_addr' | 'ipv6_addr';
  readonly any: string;
  readonly loopback: string;
  /** A client and a frontend, as a key of `aff`. */
  readonly client: string;
  readonly clientType: string;
}

const client4 = 'ip saddr . ip daddr . meta l4proto . th dport';

/** `words` of each family: the chains of lists use them, too. */
export const nftWords: Readonly<Record<Family, Words>> = {
  ipv4: {
    n: '4',
    ip: 'ip',
    type: 'ipv4_addr',
    any: anyAddress.ipv4,
    loopback: '127.0.0.0/8',
    client: client4,
    clientType: client4,
  },
  ipv6: {
    n: '6',
    ip: 'ip6',
    type: 'ipv6_addr',
    any: anyAddress.ipv6,
    loopback: '::1',
    // nft 1.0.6 aborts where the key of an `update @map` has more than 16 bytes, so two hashes stand for two addresses.
    client:
      'jhash ip6 saddr . ip6 daddr mod 0xffffffff seed 0x51c3 . jhash ip6 saddr . ip6 daddr mod 0xffffffff seed 0x7a1d . meta l4proto . th dport',
    // Never `typeof jhash`: every nft dies when it lists such a map.
    clientType: 'numgen random mod 2 . numgen random mod 2 . meta l4proto . th dport',
  },
};

/** The key of a frontend by the packet's destination; `node`: of a node port, whose address is masked. */
export const packetKey = ({ ip, any }: Words, node = false): string =>
  `${ip} daddr${node ? ` & ${any}` : ''} . meta l4proto . th dport`;

/** Each has a map of endpoints of its own. */
export const protocols = ['tcp', 'udp', 'sctp'] as const;

const localhostCounter = (protocol: string): string => `localhost-nodeport-reject-${protocol}`;
const localhostCounters = protocols.flatMap((one) => [`counter ${localhostCounter(one)} {`, '}']);

/** A rule about what a connection was meant for. nft 1.0.6 knows the type of `ct original proto-dst` only after a protocol. */
const byProtocol = (rule: string): readonly string[] => protocols.map((protocol) => `meta l4proto ${protocol} ${rule}`);

const originalKey = ({ ip, any }: Words, node = false): string =>
  `ct original ${ip} daddr${node ? ` & ${any}` : ''} . meta l4proto . ct original proto-dst`;

/**
 * The whole table without elements, as `base/first.nft` has it. `nft -f` loads it, and lists it as it was loaded.
 * nftables-design.md, section 1; kube-proxy's `pkg/proxy/nftables/proxier.go` for what each chain does.
 */
export function printNftTable(options: NftTableOptions, edition = tableEdition): string {
  const body = [
    ...families.flatMap((family) => familyParts(nftWords[family], options, edition)),
    ...chain('refuse', [...(options.tcpReset === true ? ['meta l4proto tcp reject with tcp reset'] : []), 'reject']),
    ...(options.localhost ? [...localhostCounters, ...chain('refuse-localhost', localhostRefusal)] : []),
    ...hooks(options, edition),
  ];
  return `table ${nftTableName} {\n${body.map((line) => `  ${line}\n`).join('')}}\n`;
}

function familyParts(words: Words, options: NftTableOptions, edition: TableEdition): readonly string[] {
  return [
    ...setsOf(words, options),
    ...serviceChains(words, options),
    ...filterChains(words, options, edition),
    ...masqueradeChains(words, options, edition),
  ];
}

function setsOf(
  words: Words,
  { affinityClients = affinityClientsDefault, endpointCounters }: NftTableOptions,
): readonly string[] {
  const counter = endpointCounters === true ? ' counter;' : '';
  const { n, ip, type, clientType } = words;
  const frontend = `type ${type} . inet_proto . inet_service`;
  const ofServices = (prefix: '' | 't'): readonly string[] => [
    ...['svc', 'out', 'none'].map((name) => `map ${prefix}${name}${n} { ${frontend} : verdict; }`),
    ...['fw', 'always', 'near'].map((name) => `set ${prefix}${name}${n} { ${frontend}; }`),
    `set ${prefix}allow${n} { ${frontend} . ${type}; flags interval; }`,
  ];
  return [
    `set trial${n} { type ${type}; flags interval,timeout; }`,
    `set tkey${n} { ${frontend}; }`,
    `set loop${n} { type ${type} . ${type}; }`,
    `set cluster${n} { type ${type}; }`,
    `set sticky${n} { ${frontend}; }`,
    `set health${n} { type inet_service; }`,
    ...['pods', 'keep', 'node', 'cidr'].map((name) => `set ${name}${n} { type ${type}; flags interval; }`),
    ...ofServices(''),
    ...ofServices('t'),
    // One for each protocol: `ip daddr . th dport` as a value puts a match of one protocol into every rule that uses the map.
    ...protocols.map(
      (name) =>
        `map ${name}${n} { typeof ${ip} daddr . ${name} dport . numgen random mod 2 : ${ip} daddr . ${name} dport;${counter} }`,
    ),
    `map aff${n} { typeof ${clientType} : meta priority; flags dynamic,timeout; size ${affinityClients}; }`,
    `map slot${n} { typeof ${packetKey(words)} . numgen random mod 2 : meta priority; }`,
    ...['id', 'idb', 'lid', 'lidb'].map(
      (name) =>
        `map ${name}${n} { type ${type} . inet_proto . inet_service . classid : ${type} . inet_service;${counter} }`,
    ),
  ];
}

/** Whether a packet comes from outside of the cluster. */
const notOfPods = ({ n, ip }: Words, { detector }: NftTableOptions): string =>
  detector === 'address' ? `${ip} saddr != @pods${n}` : `iifname != "${detector.interface}"`;

function serviceChains(words: Words, options: NftTableOptions): readonly string[] {
  const { n, ip, loopback } = words;
  const outside = notOfPods(words, options);
  const lists = (key: string, prefix: '' | 't'): readonly string[] => [
    `${key} @${prefix}near${n} ${outside} fib saddr type != local ${key} vmap @${prefix}out${n}`,
    `${key} vmap @${prefix}svc${n}`,
  ];
  const onTrial = (key: string, name: string): string => `${ip} saddr @trial${n} ${key} @tkey${n} goto ${name}${n}`;
  const [own, node] = [packetKey(words), packetKey(words, true)];
  return [
    ...chain(`trial-services${n}`, lists(own, 't')),
    ...chain(`trial-nodeports${n}`, lists(node, 't')),
    ...chain(`nodeports${n}`, [onTrial(node, 'trial-nodeports'), ...lists(node, '')]),
    ...(servesLocalhost(words, options)
      ? [
          ...chain(`trial-localhost${n}`, localhostLists(words, 't')),
          ...chain(`localhost${n}`, [onTrial(node, 'trial-localhost'), ...localhostLists(words, '')]),
        ]
      : []),
    ...chain(`services${n}`, [
      onTrial(own, 'trial-services'),
      ...lists(own, ''),
      `${ip} daddr @node${n} ${ip} daddr != ${loopback} fib daddr type local goto nodeports${n}`,
      ...(servesLocalhost(words, options) ? [`${ip} daddr ${localhostAddress} goto localhost${n}`] : []),
    ]),
  ];
}

/** The loopback addresses with node ports: those of kube-proxy's listeners, of which `sluiced` has that of IPv6. */
export const localhostAddress = '127.0.0.1';
export const localhostListenerAddress = '::1';

/** IPv6 has no `route_localnet`. */
const servesLocalhost = ({ n }: Words, { localhost }: NftTableOptions): boolean => n === '4' && localhost === 'served';

/** With policy Local the endpoints of the node alone, as kube-proxy's listener has them (`syncProxyRules`), from any source. */
const localhostLists = (words: Words, prefix: '' | 't'): readonly string[] => {
  const [key, { n }] = [packetKey(words, true), words];
  return [`${key} @${prefix}near${n} ${key} vmap @${prefix}out${n}`, `${key} vmap @${prefix}svc${n}`];
};

/**
 * Every node port has a policy, with endpoints or without. kube-proxy refuses TCP on loopback addresses only where it has no listener, and
 * its listener is on one of them. Where ours is one, a port without it is refused by the kernel.
 */
function localhostRefusals(words: Words, options: NftTableOptions): readonly string[] {
  const [key, { n, ip }] = [packetKey(words, true), words];
  const sets = (['t', ''] as const).flatMap((prefix) => [`${prefix}always${n}`, `${prefix}near${n}`]);
  return [
    'ct status dnat return',
    ...(servesLocalhost(words, options) ? [`meta l4proto tcp ${ip} daddr != ${localhostAddress} return`] : []),
    ...(n === '6' && options.localhostListener === true ? ['meta l4proto tcp return'] : []),
    ...sets.map((set) => `${key} @${set} goto refuse-localhost`),
  ];
}

/**
 * A new packet has the protocol of its connection, and only that can be asked in a set with ranges: there nft 1.0.6 converts the byte order
 * of `meta l4proto`, which is one byte, and Linux 6.12.117 refuses the rule. Edition 1 has it.
 */
const rangeProtocol = (edition: TableEdition): string => (edition === 1 ? 'meta l4proto' : 'ct protocol');

function filterChains(words: Words, options: NftTableOptions, edition: TableEdition): readonly string[] {
  const { n, ip, loopback } = words;
  const [own, node] = [packetKey(words), packetKey(words, true)];
  const range = (prefix: '' | 't'): string =>
    `${own} @${prefix}fw${n} ${ip} daddr . ${rangeProtocol(edition)} . th dport . ${ip} saddr != @${prefix}allow${n} drop`;
  const none = (key: string): readonly string[] => [`${key} vmap @tnone${n}`, `${key} vmap @none${n}`];
  return [
    ...chain(`trial-ranges${n}`, [range('t')]),
    ...chain(`ranges${n}`, [`${ip} saddr @trial${n} ${own} @tkey${n} goto trial-ranges${n}`, range('')]),
    ...chain(`unserved-node${n}`, none(node)),
    ...(options.localhost ? chain(`unserved-localhost${n}`, localhostRefusals(words, options)) : []),
    ...chain(`unserved${n}`, [
      // What was translated is served: a release on probation needs no switch here.
      'ct status dnat return',
      ...none(own),
      `${ip} daddr @node${n} ${ip} daddr != ${loopback} fib daddr type local goto unserved-node${n}`,
      `${ip} daddr @cluster${n} goto refuse`,
      `${ip} daddr @cidr${n} drop`,
    ]),
  ];
}

/** Judged by what a connection was meant for, so that no mark is needed. */
function masqueradeChains(words: Words, options: NftTableOptions, edition: TableEdition): readonly string[] {
  const { n, ip } = words;
  const [own, node] = [originalKey(words), originalKey(words, true)];
  const local = `${notOfPods(words, options)} fib saddr type local`;
  const policies = (key: string, prefix: '' | 't'): readonly string[] => [
    ...byProtocol(`${key} @${prefix}always${n} masquerade fully-random`),
    ...byProtocol(`${key} @${prefix}near${n} ${local} masquerade fully-random`),
  ];
  const byPolicy = (prefix: '' | 't'): readonly string[] => [
    ...policies(own, prefix),
    `ct original ${ip} daddr @node${n} goto ${prefix}masquerade-node${n}`,
  ];
  const sticky = (when: string): readonly string[] =>
    [own, node].flatMap((key) => byProtocol(`${when}${key} @sticky${n} meta priority set 0`));
  // Few packets have a priority: one question for each of the others. Editions 1 and 2 ask six times.
  const isOnce = edition > 2;
  return [
    ...(isOnce ? chain(`sticky${n}`, sticky('')) : []),
    ...chain(`tmasquerade-node${n}`, policies(node, 't')),
    ...chain(`tmasquerade${n}`, byPolicy('t')),
    ...chain(`masquerade-node${n}`, policies(node, '')),
    ...chain(`masquerade-cluster${n}`, clusterRules(words, options)),
    ...chain(`masquerade${n}`, [
      ...(isOnce ? [`meta priority != 0 jump sticky${n}`] : sticky('meta priority != 0 ')),
      `${ip} saddr . ${ip} daddr @loop${n} masquerade fully-random`,
      `ct original ${ip} daddr @cluster${n} goto masquerade-cluster${n}`,
      ...byProtocol(`${ip} saddr @trial${n} ${own} @tkey${n} goto tmasquerade${n}`),
      ...byProtocol(`${ip} saddr @trial${n} ${node} @tkey${n} ct original ${ip} daddr @node${n} goto tmasquerade${n}`),
      ...byPolicy(''),
    ]),
  ];
}

function clusterRules({ n, ip }: Words, { detector, masqueradeAll }: NftTableOptions): readonly string[] {
  if (masqueradeAll) return ['masquerade fully-random'];
  return detector === 'address'
    ? [`${ip} saddr != @keep${n} masquerade fully-random`]
    : [`iifname != "${detector.interface}" masquerade fully-random`];
}

/**
 * Base chains. A comparison takes a fifth of a look-up: editions 1 and 2 have one in each. Those that translate destinations come one before
 * kube-proxy's priority and that of iptables: of equal ones the kernel asks that which was registered last. Editions before 4 have its priorities.
 */
function hooks({ localhost }: NftTableOptions, edition: TableEdition): readonly string[] {
  const translates = edition > 3 ? nftDnatPriority : -100;
  const table = [
    ['pre-dnat', 'filter', 'prerouting', -110, 'ct state new ', 'jump ranges'],
    ['out-dnat', 'filter', 'output', -110, 'ct state new ', 'jump ranges'],
    ['nat-prerouting', 'nat', 'prerouting', translates, '', 'goto services'],
    ['nat-output', 'nat', 'output', translates, '', 'goto services'],
    ['nat-postrouting', 'nat', 'postrouting', 100, 'ct status dnat ', 'goto masquerade'],
    ['input', 'filter', 'input', 0, 'ct state new ', 'jump unserved'],
    ['forward', 'filter', 'forward', 0, 'ct state new ', 'jump unserved'],
    ['output', 'filter', 'output', 0, 'ct state new ', 'jump unserved'],
  ] as const;
  return table.flatMap(([name, type, hook, priority, match, verdict]) =>
    chain(name, [
      `type ${type} hook ${hook} priority ${priority};`,
      ...(name === 'pre-dnat' && localhost === 'served' ? [guard] : []),
      ...(name === 'input' && localhost ? families.map(toRefusals) : []),
      ...(edition > 2
        ? [`${match}meta nfproto ipv4 ${verdict}4`, `${match}meta nfproto ipv6 ${verdict}6`]
        : [`${match}meta nfproto vmap { ipv4 : ${verdict}4, ipv6 : ${verdict}6 }`]),
    ]),
  );
}

/** `route_localnet` lets packets of other hosts to loopback addresses in. Replies have the address of the node before translation. */
const guard = `ip daddr ${nftWords.ipv4.loopback} iifname != "lo" drop`;

/** In the output of the node a refused program would see another error, that it may not send (EPERM). */
const toRefusals = (family: Family): string => {
  const { n, ip, loopback } = nftWords[family];
  return `ct state new ${ip} daddr ${loopback} jump unserved-localhost${n}`;
};

function chain(name: string, rules: readonly string[]): readonly string[] {
  return [`chain ${name} {`, ...rules.map((rule) => `  ${rule}`), '}'];
}

/** Counted by kube-proxy's names. A program that connects to ::1 would hear of an ICMP error at its second packet, 1 s later. */
const localhostRefusal = protocols.map((one) => {
  const answer = one === 'tcp' ? 'reject with tcp reset' : 'reject';
  return `meta l4proto ${one} counter name "${localhostCounter(one)}" ${answer}`;
});

/** Only variables, whose values are checked: another text between the quotes could hold anything. */
const interfaceForm = /iifname != "(\$\{profile\.(?:bridgeInterface\}|interfaceNamePrefix\}\*))"/;

/**
 * The table of a profile in one line: `table 4 address`, `table 4 interface cali*`; then the options that are not as by default:
 * ` masquerade-all`, ` tcp-reset`, ` clients 65536`, ` counters`, ` localhost-refused`, ` localhost-served`, ` localhost-listener`. The number is the edition: versions of
 * nodes are digests of resolved lines, and those of old bundles stay the same.
 * @param text of `base/first.nft`, of any edition
 * @returns undefined if `sluice` writes no such text
 */
export function readNftTable(text: string): string | undefined {
  const name = interfaceForm.exec(text)?.[1];
  const detector = name === undefined ? 'address' : { interface: name };
  const affinityClients = Number(/ size (\d{1,8}); \}$/m.exec(text)?.[1]);
  const endpointCounters = countsEndpoints(text);
  const localhost = localhostOf((wanted) => text.includes(`  chain ${wanted} {\n`));
  for (const masqueradeAll of [false, true])
    for (const tcpReset of [false, true])
      for (const own of localhost) {
        const options = { detector, masqueradeAll, tcpReset, affinityClients, endpointCounters, ...own } as const;
        const edition = tableEditions.find((one) => printNftTable(options, one) === text);
        if (edition !== undefined) return tableLine(options, edition);
      }
  return undefined;
}

/** Whether elements count connections. @param text as `printNftTable` prints it */
export const countsEndpoints = (text: string): boolean => text.includes(' counter; }\n');

/** What a table may do on loopback addresses: one of these. @param hasChain whether it has a chain of a name */
export function localhostOf(
  hasChain: (name: string) => boolean,
): readonly Pick<NftTableOptions, 'localhost' | 'localhostListener'>[] {
  if (!hasChain('unserved-localhost4')) return [{}];
  const localhost = hasChain('localhost4') ? 'served' : 'refused';
  return [{ localhost }, { localhost, localhostListener: true }];
}

/** The table in one line. `tableOptions([tableLine(options)])` is `options`. */
export function tableLine(options: NftTableOptions, edition = tableEdition): string {
  const { detector, masqueradeAll, tcpReset, affinityClients, endpointCounters, localhost, localhostListener } =
    options;
  const how = detector === 'address' ? 'address' : `interface ${detector.interface}`;
  const clients =
    affinityClients === undefined || affinityClients === affinityClientsDefault ? '' : ` clients ${affinityClients}`;
  return `table ${edition} ${how}${masqueradeAll ? ' masquerade-all' : ''}${tcpReset === true ? ' tcp-reset' : ''}${clients}${endpointCounters === true ? ' counters' : ''}${localhost === undefined ? '' : ` localhost-${localhost}`}${localhostListener === true ? ' localhost-listener' : ''}`;
}

/** Settings with the newest edition of the table: states that differ in it alone are equal. */
export function withNewestTable(settings: readonly string[]): readonly string[] {
  return settings.map((one) => one.replace(/^table \d+ /, `table ${tableEdition} `));
}

/** The options of the table of a state. @param settings of the state, the table first */
export function tableOptions([table = '']: readonly string[]): NftTableOptions {
  const [, , how, ...rest] = table.split(' ');
  const words = how === 'interface' ? rest.slice(1) : rest;
  const clients = words.indexOf('clients');
  const localhost = (['refused', 'served'] as const).find((one) => words.includes(`localhost-${one}`));
  return {
    detector: how === 'interface' ? { interface: rest[0] ?? '' } : 'address',
    masqueradeAll: words.includes('masquerade-all'),
    tcpReset: words.includes('tcp-reset'),
    affinityClients: clients < 0 ? affinityClientsDefault : Number(words[clients + 1]),
    endpointCounters: words.includes('counters'),
    ...(localhost && { localhost }),
    ...(words.includes('localhost-listener') && { localhostListener: true }),
  };
}
