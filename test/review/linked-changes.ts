import { baseFile, type BundleFiles } from '@sluice/bundle';
import {
  anyAddress,
  frontendKey,
  type NftTableOptions,
  printNftTable,
  readNftTable,
  tableOptions,
} from '@sluice/netfilter';
import { asWritten, type Element, elementsIn, type Key, keyIn, lineOf, type LinkedNode, moved } from './linked.ts';
import { pick } from './mutate.ts';
import { bumped, next, resized } from './networks.ts';

type Random = () => number;
/** A change of the lines of one file. @returns the lines that it has then; undefined: it does not apply */
type Change = (lines: readonly string[], random: Random) => readonly string[] | undefined;

/** Changes one random element of some sets. @param change returns the elements in its place, or its text */
function one(
  sets: string,
  change: (element: Element, random: Random) => string | readonly Element[] | undefined,
): Change {
  const names = sets.split(' ');
  return (lines, random) => {
    const found = lines.flatMap((line, at) =>
      elementsIn(line).flatMap((element) => (names.includes(element.set) ? [{ at, element }] : [])),
    );
    if (found.length === 0) return undefined;
    const { at, element } = pick(found, random);
    const changed = change(element, random);
    if (changed === undefined) return undefined;
    const fresh = typeof changed === 'string' ? [{ ...element, text: changed }] : changed;
    return lines.toSpliced(at, 1, ...fresh.map(lineOf));
  };
}

/** Changes all elements of one random frontend together. */
function whole(
  change: (own: readonly Element[], key: Key, random: Random, all: readonly Key[]) => readonly Element[] | undefined,
): Change {
  return (lines, random) => {
    const keyOf = (line: string): Key | undefined => elementsIn(line).flatMap((element) => keyIn(element) ?? [])[0];
    const keys = lines.flatMap((line) => keyOf(line) ?? []);
    if (keys.length === 0) return undefined;
    const key = pick(keys, random);
    const isOwn = (line: string): boolean => {
      const other = keyOf(line);
      return other !== undefined && frontendKey(other) === frontendKey(key);
    };
    const changed = change(lines.filter(isOwn).flatMap(elementsIn), key, random, keys);
    return changed && [...lines.filter((line) => !isOwn(line)), ...changed.map(lineOf)];
  };
}

const protocols = ['tcp', 'udp', 'sctp'] as const;
const frontends = 'svc out always near none fw allow tcp udp sctp';
const lists = 'tcp udp sctp';
const networks = 'pods keep node cidr';

const otherProtocol = (protocol: Key['protocol'], random: Random): Key['protocol'] =>
  pick(
    protocols.filter((name) => name !== protocol),
    random,
  );

/** How lists and local lists are chosen from. */
const schedulers = [
  ['n${count}', 'l${localCount}'],
  ['i${count}', 'il${localCount}'],
  ['h${count}', 'hl${localCount}'],
  ['m251', 'ml251'],
  ['m1009', 'ml1009'],
] as const;

const isAny = (address: string): boolean => Object.values(anyAddress).some((any) => any === address);

const toAddress = (key: Key): Key | undefined =>
  isAny(key.address) ? undefined : { ...key, address: bumped(key.address) };
const toPort = (key: Key): Key => ({ ...key, port: key.port + 1 });
const toProtocol = (key: Key, random: Random): Key => ({ ...key, protocol: otherProtocol(key.protocol, random) });

const movedWhole = (rename: (key: Key, random: Random) => Key | undefined): Change =>
  whole((own, key, random) => {
    const to = rename(key, random);
    return to && own.map((element) => moved(element, key, to));
  });

/** The last part of an element, which is a network. */
const withNetwork = (text: string, change: (network: string) => string | undefined): string | undefined => {
  const at = text.lastIndexOf(' ') + 1;
  const changed = change(text.slice(at));
  return changed === undefined ? undefined : text.slice(0, at) + changed;
};

const verdict = (own: readonly Element[], form: RegExp, by: string): readonly Element[] | undefined =>
  own.some(({ text }) => form.test(text))
    ? own.map((element) => ({ ...element, text: element.text.replace(form, by) }))
    : undefined;

const without = (own: readonly Element[], ...sets: readonly string[]): readonly Element[] =>
  own.filter(({ set }) => !sets.includes(set));
const has = (own: readonly Element[], set: string): boolean => own.some((element) => element.set === set);
const endpointOf = ({ text }: Element): string => text.split(' : ')[1] ?? '';
const isLocal = ({ text }: Element): boolean => text.includes('${localSlot}');

/** Other networks of a set: each must be judged, at both of its ends. */
const networkChanges = (sets: string): Readonly<Record<string, Change>> => ({
  other: one(sets, ({ text }) => withNetwork(text, next)),
  wider: one(sets, ({ text }, random) =>
    withNetwork(text, (network) => resized(network, pick([-1, -2, -4, -8], random))),
  ),
  'first half': one(sets, ({ text }) => withNetwork(text, (network) => resized(network, 1))),
  'second half': one(sets, ({ text }) =>
    withNetwork(text, (network) => {
      const half = resized(network, 1);
      return half === undefined ? undefined : next(half);
    }),
  ),
  added: one(sets, (element) => {
    const text = withNetwork(element.text, next);
    return text === undefined ? undefined : [element, { ...element, text }];
  }),
  removed: one(sets, () => []),
});

const named = (prefix: string, all: Readonly<Record<string, Change>>): Readonly<Record<string, Change>> =>
  Object.fromEntries(Object.entries(all).map(([name, change]) => [`${prefix}: ${name}`, change]));

/** Changes of Services' lines. Most of a single element of a frontend make lines that no node takes. */
const ofServices: Readonly<Record<string, Change>> = {
  'an element removed': one(`${frontends} cluster`, () => []),
  'an element of another frontend': whole((own, key, random, all) => {
    const to = all.filter(({ address }) => address.includes(':') === key.address.includes(':'));
    const at = Math.floor(random() * own.length);
    return to.length === 0 ? undefined : own.with(at, moved(own[at]!, key, pick(to, random)));
  }),
  'address of a frontend': movedWhole(toAddress),
  'port of a frontend': movedWhole(toPort),
  'protocol of a frontend': movedWhole(toProtocol),
  'frontend removed': whole(() => []),
  'frontend added': whole((own, key) => [...own, ...own.map((element) => moved(element, key, toPort(key)))]),
  'address of an endpoint': one(lists, ({ text }) =>
    text.replace(/ : (\S+) /, (_, address: string) => ` : ${bumped(address)} `),
  ),
  'port of an endpoint': one(lists, ({ text }) => text.replace(/\d+$/, (port) => String(Number(port) + 1))),
  'endpoint added': one(lists, (element) => [
    element,
    { ...element, text: element.text.replace(/\d+$/, (port) => String(Number(port) + 1)) },
  ]),
  'endpoint removed': one(lists, () => []),
  'list of an endpoint': whole((own, _key, random) => {
    const nearby = own.filter(isLocal).map(endpointOf);
    const found = own.filter((element) => element.text.includes('${slot}') && !nearby.includes(endpointOf(element)));
    if (!has(own, 'out') || found.length === 0) return undefined;
    const chosen = pick(found, random);
    return own.map((element) =>
      element === chosen ? { ...element, text: element.text.replace('${slot}', '${localSlot}') } : element,
    );
  }),
  'no local list': whole((own) => (own.some(isLocal) ? own.filter((element) => !isLocal(element)) : undefined)),
  'all in the local list': whole((own) =>
    has(own, 'out')
      ? [
          ...own.filter((element) => !isLocal(element)),
          ...own.flatMap((element) =>
            element.text.includes('${slot}')
              ? [{ ...element, text: element.text.replace('${slot}', '${localSlot}') }]
              : [],
          ),
        ]
      : undefined,
  ),
  'with affinity': whole((own) =>
    verdict(
      own.map((element) => ({ ...element, text: element.text.replace('l${localCount}', 'r${localCount}t600') })),
      /n\$\{count\}/,
      's$${count}t600',
    ),
  ),
  'without affinity': whole((own) =>
    verdict(
      own.map((element) => ({ ...element, text: element.text.replace(/r\$\{localCount\}t\d+/, 'l$${localCount}') })),
      /s\$\{count\}t\d+/,
      'n$${count}',
    ),
  ),
  'time of affinity': whole((own) => verdict(own, /(Count|count)\}t\d+/, '$1}t77')),
  'weight of an endpoint': whole((own, _key, random) => {
    const found = own.filter(({ set }) => lists.includes(set));
    if (found.length === 0) return undefined;
    const [endpoint, weight] = [endpointOf(pick(found, random)), 2 + Math.floor(random() * 2)];
    return own.map((element) =>
      lists.includes(element.set) && endpointOf(element) === endpoint
        ? { ...element, text: element.text.replace(/\$\{(slot|localSlot)(?::\d+)?\}/, `\${$1:${weight}}`) }
        : element,
    );
  }),
  scheduler: whole((own, _key, random) => {
    const [all, local] = pick(schedulers, random);
    const changed = own.map((element) => ({
      ...element,
      text: element.text
        .replace(/ : goto (p?)(?:[nih]\$\{count\}|m\d+)$/, (_, p: string) => ` : goto ${p}${all}`)
        .replace(/ : goto (p?)(?:(?:l|[ih]l)\$\{localCount\}|ml\d+)$/, (_, p: string) => ` : goto ${p}${local}`),
    }));
    return changed.some(({ text }, at) => text !== own[at]?.text) ? changed : undefined;
  }),
  'verdict without endpoints': one('none', ({ text }) =>
    text.endsWith('drop') ? text.replace(/drop$/, 'goto refuse') : text.replace(/goto refuse$/, 'drop'),
  ),
  'policy Cluster': whole((own) =>
    has(own, 'near')
      ? without(own, 'out')
          .filter((element) => !isLocal(element))
          .map((element) => (element.set === 'near' ? { ...element, set: 'always' } : element))
      : undefined,
  ),
  'policy Local': whole((own, key) =>
    has(own, 'always')
      ? [
          ...own.map((element) => (element.set === 'always' ? { ...element, set: 'near' } : element)),
          ...own.flatMap((element) =>
            element.set === 'svc' ? [{ ...element, set: 'out', text: outOf(element.text) }] : [],
          ),
          { set: 'none', n: own[0]!.n, text: `${frontendKey(key)} : drop` },
        ]
      : undefined,
  ),
  'not for outside': whole((own) =>
    has(own, 'always') || has(own, 'near')
      ? without(own, 'always', 'near', 'out').filter((element) => !isLocal(element))
      : undefined,
  ),
  'no ClusterIP': one('cluster', () => []),
  'another ClusterIP': one('cluster', ({ text }) => bumped(text)),
  'a ClusterIP more': whole((own, { address }) =>
    has(own, 'always') && !isAny(address) ? [...own, { set: 'cluster', n: own[0]!.n, text: address }] : undefined,
  ),
  'no ranges': whole((own) => (has(own, 'fw') ? without(own, 'fw', 'allow') : undefined)),
  'first ranges': whole((own, key) =>
    !has(own, 'fw') && !isAny(key.address)
      ? [
          ...own,
          { set: 'fw', n: own[0]!.n, text: frontendKey(key) },
          {
            set: 'allow',
            n: own[0]!.n,
            text: `${frontendKey(key)} . ${own[0]!.n === '4' ? '198.51.100.0/24' : '2001:db8::/32'}`,
          },
        ]
      : undefined,
  ),
  ...named('range', networkChanges('allow')),
};

const outOf = (text: string): string =>
  text.replace('n${count}', 'l${localCount}').replace(/s\$\{count\}(t\d+)/, 'r$${localCount}$1');

const ofBase = named('network of the profile', networkChanges(networks));

/** Changes that no packet shows. */
const neutral: Readonly<Record<string, Change>> = {
  'order of two lines': (lines, random) => {
    const found = lines.flatMap((line, at) => (elementsIn(line).length > 0 ? [at] : []));
    if (found.length < 2) return undefined;
    const [a, b] = [pick(found, random), pick(found, random)];
    return a === b ? undefined : lines.with(a, lines[b]!).with(b, lines[a]!);
  },
  'a line twice': one(`${frontends} cluster health ${networks}`, (element) => [element, element]),
  'two lines as one': (lines, random) => {
    const found = lines.flatMap((line, at) => elementsIn(line).map((element) => ({ at, element })));
    if (found.length < 2) return undefined;
    const [a, b] = [pick(found, random), pick(found, random)];
    if (a.at >= b.at || a.element.set !== b.element.set || a.element.n !== b.element.n) return undefined;
    const line = lineOf({ ...a.element, text: `${a.element.text}, ${b.element.text}` });
    return lines.with(a.at, line).toSpliced(b.at, 1);
  },
  'a range inside of another': one('allow pods keep cidr', (element) => {
    const text = withNetwork(element.text, (network) => resized(network, 1));
    return text === undefined ? undefined : [element, { ...element, text }];
  }),
  'port of health checks': one('health', ({ text }) => String(Number(text) + 1)),
};

/** Changes of lines that no node takes: the table has the chains of lists by their counts. */
const refused: Readonly<Record<string, Change>> = {
  'chain of a list': one('svc out', ({ text }, random) =>
    text.replace(
      /goto .*$/,
      `goto ${pick(['n3', 'l${count}', 'n${localCount}', 'refuse', 'pn0', 's${count}'], random)}`,
    ),
  ),
};

/** The table with another option. */
const withOptions =
  (change: (options: NftTableOptions) => NftTableOptions): TableChange =>
  (text) => {
    const table = readNftTable(text);
    return table === undefined ? undefined : printNftTable(change(tableOptions([table])));
  };

/** A change of `base/first.nft`. */
type TableChange = (text: string, random: Random) => string | undefined;

/** A change of one rule, chain, set or map of the table. */
const ofTable =
  (change: (lines: readonly string[], at: number, random: Random) => readonly string[] | undefined): TableChange =>
  (text, random) => {
    const lines = text.split('\n');
    return change(lines, 1 + Math.floor(random() * (lines.length - 2)), random)?.join('\n');
  };

/** Of the options of the table, which nothing else in a bundle declares, and of its rules, which are the same everywhere. */
const tables: Readonly<Record<string, TableChange>> = {
  masqueradeAll: withOptions((options) => ({ ...options, masqueradeAll: !options.masqueradeAll })),
  tcpReset: withOptions((options) => ({ ...options, tcpReset: options.tcpReset !== true })),
  affinityClients: withOptions((options) => ({ ...options, affinityClients: 65_536 })),
  'rule of the table removed': ofTable((lines, at) => lines.toSpliced(at, 1)),
  'rule of the table twice': ofTable((lines, at) => lines.toSpliced(at, 0, lines[at]!)),
  'order of two rules of the table': ofTable((lines, at) =>
    at + 1 < lines.length && lines[at] !== lines[at + 1]
      ? lines.with(at, lines[at + 1]!).with(at + 1, lines[at]!)
      : undefined,
  ),
  'rule of the table with another word': ofTable((lines, at, random) => {
    const words = lines[at]!.split(' ');
    const place = Math.floor(random() * words.length);
    return words[place] === '' ? undefined : lines.with(at, words.with(place, `${words[place]}4`).join(' '));
  }),
};

/** A linked node with one mistake. */
export interface LinkedMutant {
  readonly what: string;
  readonly files: BundleFiles;
}

/** An option of the table. Nothing else in a bundle says what it should be, so `prove` takes it as declared. */
export const declared = 'masqueradeAll';
/** Kinds of which some mutants treat a packet differently. */
export const differingKinds: readonly string[] = [...Object.keys(ofServices), ...Object.keys(ofBase), declared];
/** Kinds of which none does: the tracer tells no reset from an ICMP error, and the map of remembered clients stays empty. */
export const neutralKinds: readonly string[] = [...Object.keys(neutral), 'tcpReset', 'affinityClients'];
/** Kinds that every node refuses. */
export const refusedKinds: readonly string[] = [
  ...Object.keys(refused),
  ...Object.keys(tables).filter((kind) => kind.includes('of the table')),
];

/** @returns undefined where this kind of change does not apply to the file that was drawn */
export function mutateLinked(linked: LinkedNode, kind: string, random: Random): LinkedMutant | undefined {
  const { files, profile, lines, written } = linked;
  const ofTheTable = tables[kind];
  if (ofTheTable) {
    const first = baseFile(profile, 'first', 'nft');
    const [before, text] = [files.get(first)!, ofTheTable(files.get(first)!, random)];
    if (text === undefined || text === before) return undefined;
    const what = `${first}: ${kind}: ${differenceIn(before.split('\n'), text.split('\n'))}`;
    return { what, files: new Map([...files, [first, text]]) };
  }
  const path = pick([...lines.keys()], random);
  const before = lines.get(path)!;
  const after = (ofServices[kind] ?? ofBase[kind] ?? refused[kind] ?? neutral[kind])!(before, random);
  if (!after || after.join() === before.join()) return undefined;
  const what = `${path}: ${kind}: ${differenceIn(before, after)}`;
  return { what, files: new Map([...files, [path, asWritten(after, written)]]) };
}

/** The lines that only one of two texts has. */
function differenceIn(old: readonly string[], fresh: readonly string[]): string {
  const lost = old.filter((line) => !fresh.includes(line)).map((line) => `-${line}`);
  const found = fresh.filter((line) => !old.includes(line)).map((line) => `+${line}`);
  return [...lost, ...found].slice(0, 12).join('; ');
}
