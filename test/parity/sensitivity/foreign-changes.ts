import { pick } from '../../review/mutate.ts';
import { type Change, type Frontend, frontendsIn, type Random, replacing, rules, tables } from './change.ts';
import { type Dump, foreignTable } from './dump.ts';

/** Rules of other programs, and settings of the machine. */

const isSix = ({ address }: Frontend): boolean => address.includes(':');

/** Puts a rule before all others of a chain of a table, or behind them. */
function put(
  dump: Dump,
  six: boolean,
  table: string,
  chain: string,
  rule: string,
  where: 'first' | 'last' = 'first',
): Dump {
  const part = six ? 'ipv6' : 'ipv4';
  const at = dump[part].indexOf(`*${table}\n`);
  if (at < 0) return dump;
  const lines = dump[part].slice(at).split('\n');
  const end = lines.indexOf('COMMIT');
  const first = lines.findIndex((line) => line.startsWith('-A '));
  const place = where === 'last' ? end : first < 0 || first > end ? end : first;
  return {
    ...dump,
    [part]: `${dump[part].slice(0, at)}${lines.toSpliced(place, 0, `-A ${chain} ${rule}`).join('\n')}`,
  };
}

const oneRule =
  (
    make: (frontend: Frontend, random: Random) => readonly [table: string, chain: string, rule: string],
    where?: 'last',
  ): Change =>
  (dump, random) => {
    const frontends = frontendsIn(dump);
    if (frontends.length === 0) return undefined;
    const frontend = pick(frontends, random);
    const [table, chain, rule] = make(frontend, random);
    return {
      what: `${table}: ${where === 'last' ? '' : 'first '}-A ${chain} ${rule}`,
      dump: put(dump, isSix(frontend), table, chain, rule, where),
    };
  };

const to = ({ address, protocol, port }: Frontend): string =>
  `-d ${address} -p ${protocol} -m ${protocol} --dport ${port}`;
const early = ['PREROUTING', 'OUTPUT'] as const;
const pods = (six: boolean): string => (six ? 'fd00:10:244:1::/64' : '10.244.1.0/24');
const pod = (six: boolean): string => (six ? '[fd00:10:244:1::99]:8080' : '10.244.1.99:8080');
const elsewhere = (six: boolean): string => (six ? 'fd00:99::1' : '172.31.0.9');

const oneTable =
  (
    make: (frontend: Frontend, random: Random) => readonly [type: string, hook: string, priority: string, rule: string],
  ): Change =>
  (dump, random) => {
    const frontends = frontendsIn(dump);
    if (frontends.length === 0) return undefined;
    const [type, hook, priority, rule] = make(pick(frontends, random), random);
    const text = `table ${foreignTable} {\n\tchain c {\n\t\ttype ${type} hook ${hook} priority ${priority}; policy accept;\n\t\t${rule}\n\t}\n}`;
    return {
      what: `nft: ${type} hook ${hook} priority ${priority}: ${rule}`,
      dump: { ...dump, tables: `${dump.tables}\n${text}` },
    };
  };

const nftTo = (frontend: Frontend): string =>
  `${isSix(frontend) ? 'ip6' : 'ip'} daddr ${frontend.address} meta l4proto ${frontend.protocol} th dport ${frontend.port}`;
const nftFamily = (frontend: Frontend): string => (isSix(frontend) ? 'ip6' : 'ip');
const hookOf = (chain: string): string => chain.toLowerCase();

export const foreignChanges: Readonly<Record<string, Change>> = {
  'foreign DNAT of a frontend': oneRule((one, random) => [
    'nat',
    pick(early, random),
    `${to(one)} -j DNAT --to-destination ${pod(isSix(one))}`,
  ]),
  'foreign RETURN in nat': oneRule((one, random) => ['nat', pick(early, random), `${to(one)} -j RETURN`]),
  'foreign ACCEPT in nat': oneRule((one, random) => ['nat', pick(early, random), `${to(one)} -j ACCEPT`]),
  'foreign DROP of a frontend': oneRule((one, random) => [
    pick(['raw', 'mangle'], random),
    pick(early, random),
    `${to(one)} -j DROP`,
  ]),
  'foreign DROP of clients': oneRule((one, random) => [
    'filter',
    pick(['FORWARD', 'FORWARD', 'INPUT'], random),
    `-s ${pods(isSix(one))} -p ${one.protocol} -j DROP`,
  ]),
  'foreign DROP of an interface': oneRule((one, random) => [
    'mangle',
    'PREROUTING',
    `-i ${pick(['pod0', 'eth0', 'pod+'], random)} ${to(one)} -j DROP`,
  ]),
  'foreign REJECT before forwarding': oneRule((one) => [
    'filter',
    'FORWARD',
    `-d ${isSix(one) ? 'fd00:10:244::/48' : '10.244.0.0/16'} -p ${one.protocol} -j REJECT`,
  ]),
  'foreign mark that masquerades': oneRule((one, random) => [
    'mangle',
    pick(early, random),
    `${to(one)} -j MARK --set-xmark 0x4000/0x4000`,
  ]),
  'foreign notrack': oneRule((one, random) => ['raw', pick(early, random), `${to(one)} -j CT --notrack`]),
  'foreign ACCEPT before masquerading': oneRule((one) => ['nat', 'POSTROUTING', `-p ${one.protocol} -j ACCEPT`]),
  'foreign DROP of established connections': oneRule((one) => [
    'filter',
    'FORWARD',
    `-p ${one.protocol} -m conntrack --ctstate ESTABLISHED -j DROP`,
  ]),
  'foreign jump to a chain that drops': (dump, random) => {
    const frontends = frontendsIn(dump);
    if (frontends.length === 0) return undefined;
    const one = pick(frontends, random);
    const part = isSix(one) ? 'ipv6' : 'ipv4';
    const chained = { ...dump, [part]: dump[part].replace('*mangle\n', '*mangle\n:OTHER -\n') };
    const jumping = put(chained, isSix(one), 'mangle', 'PREROUTING', `-p ${one.protocol} -j OTHER`);
    return {
      what: `mangle: OTHER: ${to(one)} -j DROP`,
      dump: put(jumping, isSix(one), 'mangle', 'OTHER', `${to(one)} -j DROP`, 'last'),
    };
  },
  'foreign table: drop': oneTable((one, random) => [
    'filter',
    hookOf(pick(early, random)),
    pick(['-300', '-150', '-110'], random),
    `${nftTo(one)} drop`,
  ]),
  'foreign table: dnat': oneTable((one, random) => [
    'nat',
    hookOf(pick(early, random)),
    '-105',
    `${nftTo(one)} dnat ${nftFamily(one)} to ${pod(isSix(one))}`,
  ]),
  'foreign table: reject of clients': oneTable((one) => [
    'filter',
    'forward',
    '-5',
    `${nftFamily(one)} saddr ${pods(isSix(one))} meta l4proto ${one.protocol} reject`,
  ]),
  'foreign table: accept in nat': oneTable((one, random) => [
    'nat',
    hookOf(pick(early, random)),
    '-105',
    `${nftTo(one)} accept`,
  ]),
  'foreign table: mark': oneTable((one, random) => [
    'filter',
    hookOf(pick(early, random)),
    '-150',
    `${nftTo(one)} meta mark set meta mark | 0x00004000`,
  ]),
  'foreign table: set of addresses': oneTable((one) => [
    'filter',
    'prerouting',
    '-150',
    `${nftFamily(one)} daddr { ${one.address}, ${elsewhere(isSix(one))} } meta l4proto ${one.protocol} drop`,
  ]),
};

const sysctl =
  (path: string, value: string): Change =>
  (dump) =>
    dump.sysctls[path] === value
      ? undefined
      : { what: `${path} = ${value}`, dump: { ...dump, sysctls: { ...dump.sysctls, [path]: value } } };

/** Forwarding is switched off for both sides, so it is not here. */
export const sysctlChanges: Readonly<Record<string, Change>> = {
  'sysctl route_localnet': sysctl('net/ipv4/conf/all/route_localnet', '0'),
};

/** Kinds that treat no packet differently, as the packets confirm. */
export const neutralChanges: Readonly<Record<string, Change>> = {
  'neutral: comment of a rule': replacing(rules, /--comment "[^"]*"/g, () => '--comment "another text"'),
  'neutral: comment of a rule of a table': replacing(tables, / comment "[^"]*"$/gm, () => ' comment "another text"'),
  'neutral: foreign rule for other addresses': oneRule((one, random) => [
    'mangle',
    pick(early, random),
    `-d ${elsewhere(isSix(one))} -p ${one.protocol} -j DROP`,
  ]),
  'neutral: foreign rule behind others': oneRule(
    (one, random) => ['nat', pick(early, random), `${to(one)} -j ACCEPT`],
    'last',
  ),
  'neutral: foreign LOG': oneRule((one, random) => ['mangle', pick(early, random), `${to(one)} -j LOG`]),
  'neutral: foreign mark of another bit': oneRule((one, random) => [
    'mangle',
    pick(early, random),
    `${to(one)} -j MARK --set-xmark 0x100/0x100`,
  ]),
  'neutral: foreign DNAT for other clients': oneRule((one, random) => [
    'nat',
    pick(early, random),
    `-s ${elsewhere(isSix(one))} -d ${elsewhere(isSix(one))} -p ${one.protocol} -j DNAT --to-destination ${pod(isSix(one))}`,
  ]),
  'neutral: foreign rule of INVALID for another protocol': oneRule((one) => [
    'filter',
    'FORWARD',
    `-d ${elsewhere(isSix(one))} -m conntrack --ctstate INVALID -j DROP`,
  ]),
  'neutral: foreign table for other addresses': oneTable((one, random) => [
    'filter',
    hookOf(pick(early, random)),
    '-150',
    `${nftFamily(one)} daddr ${elsewhere(isSix(one))} drop`,
  ]),
  'neutral: foreign table that counts': oneTable((one, random) => [
    'filter',
    hookOf(pick(early, random)),
    '-150',
    `${nftTo(one)} counter`,
  ]),
  'neutral: foreign table that accepts': oneTable((one, random) => [
    'filter',
    pick(['forward', 'input', 'output'], random),
    '-5',
    `meta l4proto ${one.protocol} accept`,
  ]),
  'neutral: order of two Services': replacing(
    rules,
    /^(-A KUBE-SERVICES -d (\S+) .*\n)(-A KUBE-SERVICES -d (?!\2)\S+ .*\n)/gm,
    ([, one = '', , other = '']) => other + one,
  ),
  'neutral: order of elements': replacing(
    tables,
    /elements = \{([^}]*)\}/g,
    ([, list = '']) => `elements = { ${list.trim().split(/,\s+/).toReversed().join(', ')} }`,
  ),
  'neutral: name of a chain': (dump, random) => {
    const part = pick(rules, random);
    const names = [...dump[part].matchAll(/^:((?:KUBE|SLU)-(?:SVC|SEP|EXT)-\S+) -/gm)].map(([, name = '']) => name);
    if (names.length === 0) return undefined;
    const name = pick(names, random);
    const other = `${name.slice(0, 9)}${name.slice(9).split('').toReversed().join('')}`;
    return other === name
      ? undefined
      : { what: `${part}: ${name} → ${other}`, dump: { ...dump, [part]: dump[part].replaceAll(name, other) } };
  },
  'neutral: chain that no rule names': (dump, random) => {
    const part = pick(rules, random);
    return {
      what: `${part}: :OTHER`,
      dump: { ...dump, [part]: dump[part].replace('*filter\n', '*filter\n:OTHER -\n') },
    };
  },
  'neutral: priority of a hook by one': replacing(
    tables,
    /priority (filter|srcnat);/g,
    ([, name], random) => `priority ${name} ${pick(['+', '-'], random)} 1;`,
  ),
};
