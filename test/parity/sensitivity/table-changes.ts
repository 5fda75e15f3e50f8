import { pick } from '../../review/mutate.ts';
import {
  another,
  type Change,
  otherAddress,
  otherPort,
  otherProtocol,
  type Random,
  replacing,
  tables,
} from './change.ts';

/** Mistakes in tables of nftables, as `nft list table` prints them. */

/** A rule: a line of a chain that is neither its declaration nor a comment. */
const rule =
  /^\t\t(?!type |policy |comment |elements |flags |timeout |size |typeof |gc-|counter$)(?!.*[,{]$)(?=[a-z@]).*\n/gm;
const pairOfRules = new RegExp(`(${rule.source})(${rule.source})`, 'gm');
const elements = /elements = \{([^}]*)\}/g;

/** Changes the elements of one set or map. @param change of one of them, at random */
const ofElements = (
  change: (element: string, random: Random, all: readonly string[], text: string) => readonly string[] | undefined,
): Change =>
  replacing(tables, elements, ([, list = ''], random, text) => {
    const all = list.trim().split(/,\s+/);
    const at = Math.floor(random() * all.length);
    const put = change(all[at] ?? '', random, all, text);
    if (put === undefined) return undefined;
    const after = all.toSpliced(at, 1, ...put);
    return after.length === 0 ? '' : `elements = { ${after.join(', ')} }`;
  });

const key = /^(\S+)( \. \w+ \. \d+)/;
const verdict = /(?:goto|jump) \S+$|drop$/;

export const tableChanges: Readonly<Record<string, Change>> = {
  'element removed': ofElements(() => []),
  'element with another address': ofElements((element, random) => {
    const [, address] = /^([0-9a-f:.]{4,})(?: |$)/.exec(element) ?? [];
    return address === undefined || address.startsWith('0.0') || address.includes('/') || address === '::'
      ? undefined
      : [element.replace(address, otherAddress(address, random))];
  }),
  'element with another port': ofElements((element, random) => {
    const [, head, port, tail] = /^(\S+ \. (?:tcp|udp|sctp) \. |(?:tcp|udp|sctp) \. )(\d+)(.*)$/s.exec(element) ?? [];
    return port === undefined ? undefined : [`${head}${otherPort(port, random)}${tail}`];
  }),
  'element with another protocol': ofElements((element, random) => {
    const [protocol] = /\b(?:tcp|udp|sctp)(?= \. )/.exec(element) ?? [];
    return protocol === undefined ? undefined : [element.replace(protocol, otherProtocol(protocol, random))];
  }),
  'element with another verdict': ofElements((element, random, all, text) => {
    const [own] = verdict.exec(element) ?? [];
    if (own === undefined || !element.includes(' : ')) return undefined;
    const [prefix = ''] = /^(?:goto|jump) [a-z]+|drop/.exec(own) ?? [];
    const other = pick(all, random).split(' : ').at(-1) ?? own;
    const found = other === own ? another(own, new RegExp(`(?<= : )${prefix}[^\\s,}]*`, 'g'), text, random) : other;
    return found === undefined ? undefined : [element.slice(0, element.length - own.length) + found];
  }),
  'element of a frontend that the cluster lacks': ofElements((element, random) => {
    const [, address = '', rest = ''] = key.exec(element) ?? [];
    if (!/^[0-9a-f:.]{4,}$/.test(address) || address === '0.0.0.0') return undefined;
    return [
      element,
      element.replace(address + rest, `${otherAddress(address, random)}${rest.replace(/\d+$/, '8099')}`),
    ];
  }),
  'element with another endpoint': ofElements((element, random) => {
    const [, head, address, tail] = /^(.* : )([0-9a-f:.]{4,})( \. \d+)$/s.exec(element) ?? [];
    return address === undefined ? undefined : [`${head}${otherAddress(address, random)}${tail}`];
  }),
  'element with another port of its endpoint': ofElements((element, random) => {
    const [, head, port] = /^(.* : \S+ \. )(\d+)$/s.exec(element) ?? [];
    return port === undefined ? undefined : [`${head}${otherPort(port, random)}`];
  }),
  'rule removed': replacing(tables, rule, () => ''),
  'rule twice': replacing(tables, rule, ([line]) => line + line),
  'order of two rules': replacing(tables, pairOfRules, ([, first = '', second = '']) => second + first),
  'target: another chain': replacing(tables, /(?<=\b(?:goto|jump) )[a-z]+[^\s,}]*/g, ([name], random, text) => {
    const prefix = /^[a-z]+/.exec(name)?.[0] ?? '';
    return another(name, new RegExp(`(?<=\\b(?:goto|jump) )${prefix}[^\\s,}]*`, 'g'), text, random);
  }),
  'address of an endpoint': replacing(
    tables,
    /(dnat (?:ip6? )?to |\d : )\[?([0-9a-f.:]*[0-9a-f])\]?(:\d+| \. \d+)/g,
    ([, head, address = '', tail = ''], random) => {
      const other = otherAddress(address, random);
      return `${head}${other.includes(':') && tail.startsWith(':') ? `[${other}]` : other}${tail}`;
    },
  ),
  'port of an endpoint': replacing(
    tables,
    /(dnat to \S+:|\d : [0-9a-f:.]+ \. )(\d+)/g,
    ([, head, port = ''], random) => `${head}${otherPort(port, random)}`,
  ),
  'share of an endpoint': replacing(
    tables,
    /mod (\d+) map \{ 0 : (\S+ \. \d+),/g,
    ([found, count = '', endpoint = '']) =>
      found.replace(`mod ${count} map {`, `mod ${Number(count) + 1} map { ${count} : ${endpoint},`),
  ),
  'endpoints in another slot': replacing(
    tables,
    /numgen random mod ([2-9])/g,
    ([, count = '']) => `numgen random mod ${Number(count) - 1}`,
  ),
  'mark left out': replacing(tables, /meta mark set meta mark \| 0x00004000 /g, () => ''),
  'bit of a mark': replacing(tables, /(meta mark set meta mark \| )0x00004000/g, ([, head]) => `${head}0x00008000`),
  'masquerade left out': replacing(tables, /^\t\t.*masquerade fully-random\n/gm, () => ''),
  'verdict of a rule': replacing(tables, /^(\t\t.*?)\b(drop|reject|accept|return)$/gm, ([, head, own = ''], random) => {
    const others = ['drop', 'reject', 'accept', 'return'].filter((other) => other !== own);
    return `${head}${pick(others, random)}`;
  }),
  'network of clients': replacing(
    tables,
    /\b(?:10\.244\.0\.0\/16|fd00:10:244::\/48|203\.0\.113\.0\/24)/g,
    ([network], random) =>
      pick(network.includes(':') ? ['fd00:10:244:1::/64', 'fd00:18::/32'] : ['10.244.1.0/24', '198.18.0.0/24'], random),
  ),
  'negation of a network': replacing(tables, /ip6? saddr (!= )?(?=[@1-9f])/g, ([found, negation]) =>
    negation ? found.replace('!= ', '') : `${found}!= `,
  ),
  'state of connections': replacing(tables, /ct state new/g, () => 'ct state established'),
  'test of a local address left out': replacing(tables, /fib [sd]addr type local /g, () => ''),
  'test of a protocol': replacing(
    tables,
    /meta l4proto (tcp|udp|sctp) /g,
    ([, protocol = ''], random) => `meta l4proto ${otherProtocol(protocol, random)} `,
  ),
  'policy of a chain': replacing(tables, /policy accept;/g, () => 'policy drop;'),
  'priority of a hook': replacing(
    tables,
    /priority (dstnat|srcnat|filter|-?\d+)( [+-] \d+)?;/g,
    ([, name, offset], random) =>
      offset
        ? `priority ${name} + 7;`
        : `priority ${name === undefined || /\d/.test(name) ? pick(['-90', '10', '-170'], random) : `${name} ${pick(['+', '-'], random)} 7`};`,
  ),
  'type of a chain left out': replacing(tables, /^\t\ttype (?:nat|filter) hook .*\n/gm, () => ''),
  'affinity: clients are not remembered': replacing(tables, /^\t\t.*\bupdate @\S+ \{.*\n/gm, () => ''),
};

/** Shown only by a client that comes back after the shorter of both times. */
export const tableTimeChanges: Readonly<Record<string, Change>> = {
  'affinity: seconds': replacing(tables, /timeout (?:\d+[hms])+/g, () => 'timeout 1s'),
};
