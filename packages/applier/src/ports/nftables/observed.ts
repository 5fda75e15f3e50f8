import { listChain, nftTableName, printNftTable, readListName, tableEditions, tableOptions } from '@sluice/netfilter';

/** The table as `nft -n list table inet sluice` prints it. */
export interface ObservedNft {
  /** By set or map, then by key; `''` where a set has no value. Without `aff`, which packets fill. */
  readonly elements: ReadonlyMap<string, ReadonlyMap<string, string>>;
  /** All chains, each with its rules. */
  readonly chains: ReadonlyMap<string, readonly string[]>;
  /**
   * Everything that the table has, as nft names it: `map svc4`, `chain n3`, `counter x`; also `flags dormant`, but not the flags by which
   * the table is protected, and `counters of tcp4` where the elements of a map count.
   */
  readonly parts: ReadonlySet<string>;
}

/** Sets that packets fill: a client of a sticky frontend is an element, and there may be a million. */
export const filledByPackets = /^aff[46]$/;

/** Reads the listing as it comes, line by line; also several ones, of which a later one has the elements of a set. Other tables are skipped. */
export class NftReader {
  #rest = '';
  /** A line that ends inside of a comment: the text of one may have line feeds. */
  #open = '';
  #object: { readonly kind: 'set' | 'chain' | 'other'; readonly name: string } | undefined;
  #isInElements = false;
  readonly #elements = new Map<string, Map<string, string>>();
  readonly #chains = new Map<string, string[]>();
  readonly #parts = new Set<string>();
  #isOurs = true;
  #hasTable = false;
  /** How many elements were not read because packets fill their set. */
  clients = 0;

  take(part: string): void {
    const text = this.#rest + part;
    let at = 0;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', at)) {
      const line = text.slice(at, end);
      if (this.#open === '' && line.startsWith('table ')) this.#isOurs = line.startsWith(`table ${nftTableName} {`);
      this.#hasTable ||= this.#isOurs && line.startsWith('table ');
      this.#line(line.trim());
      at = end + 1;
    }
    this.#rest = text.slice(at);
  }

  /** Whether the text was a listing of the table, with its end. After `done`. */
  get isListing(): boolean {
    return this.#hasTable && !this.#object && !this.#isInElements;
  }

  done(): ObservedNft {
    this.#line(this.#rest.trim());
    return { elements: this.#elements, chains: this.#chains, parts: this.#parts };
  }

  #line(part: string): void {
    const line = this.#open + part;
    this.#open = endsInComment(line) ? `${line} ` : '';
    if (this.#open !== '' || !this.#isOurs) return;
    const start = this.#object || line.startsWith('table ') ? undefined : /^((?:ct )?[a-z]+) (.+) \{$/.exec(line);
    if (this.#isInElements) return this.#readElements(line);
    if (start) {
      const [, kind = '', text = ''] = start;
      const name = detached(text);
      this.#parts.add(`${detached(kind)} ${name}`);
      this.#object = { kind: kind === 'chain' ? kind : kind === 'set' || kind === 'map' ? 'set' : 'other', name };
      if (kind === 'chain') this.#chains.set(name, []);
      else if (this.#object.kind === 'set') this.#elements.set(name, new Map());
    } else if (!this.#object && line.startsWith('flags ')) for (const flag of foreignFlags(line)) this.#parts.add(flag);
    else if (line === '}') this.#object = undefined;
    else if (line === 'counter' && this.#object?.kind === 'set') this.#parts.add(`counters of ${this.#object.name}`);
    else if (this.#object?.kind === 'chain' && line !== '') this.#chains.get(this.#object.name)?.push(detached(line));
    else if (line.startsWith('elements = { ')) this.#readElements(line.slice('elements = { '.length));
  }

  #readElements(text: string): void {
    const line = text.includes('"') ? withoutComments(text) : text;
    const isLast = line.endsWith('}');
    this.#isInElements = !isLast;
    const name = this.#object?.name ?? '';
    if (filledByPackets.test(name)) this.clients += line.split(',').length;
    const into = filledByPackets.test(name) ? undefined : this.#elements.get(name);
    if (!into) return;
    const elements = isLast ? line.slice(0, -1) : line;
    for (const one of (name.endsWith('6') ? withHexadecimal(elements) : elements).split(',')) {
      const element = one.trim();
      if (element === '') continue;
      const [key = '', ...value] = element.split(' : ');
      into.set(detached(withoutTimes(key)), detached(value.join(' : ')));
    }
  }
}

/** The flags by which the owner of the table protects it: they say nothing about packets. */
const ownFlags: ReadonlySet<string> = new Set(['owner', 'persist']);

/** `flags dormant` of the line `flags dormant,persist`. */
const foreignFlags = (line: string): readonly string[] =>
  line
    .slice('flags '.length)
    .split(',')
    .map((flag) => flag.trim())
    .filter((flag) => !ownFlags.has(flag))
    .map((flag) => `flags ${detached(flag)}`);

const withoutTimes = (text: string): string => text.replace(/ (?:timeout|expires|counter) .*$/, '');

/** The comment of an element, which only another program writes. It has no quotes, but commas, braces and line feeds. */
const comments = / comment "[^"]*"/g;

/** A listing without them. */
export const withoutComments = (text: string): string => text.replaceAll(comments, '');

const endsInComment = (line: string): boolean => line.includes('"') && line.split('"').length % 2 === 0;

/** nft prints the last 32 bits of an address like IPv4 where only they are set, `::0.2.0.1`; states have `::2:1`. */
export function withHexadecimal(text: string): string {
  return text.replaceAll(/(?<=^|[\s,])::(\d+)\.(\d+)\.(\d+)\.(\d+)/g, (_all, ...bytes) => {
    const [a, b, c, d] = bytes.slice(0, 4).map(Number) as [number, number, number, number];
    return `::${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
  });
}

/** A copy of the string: a substring keeps the whole text in memory. */
const detached = (text: string): string => Buffer.from(text).toString();

/** The tables that were asked for last, by edition and settings. Each comparison asks, and a node has few settings in its life. */
const tables = new Map<string, ObservedNft>();
const tablesMax = 8;

/** The table of a state without elements, its rules in the one spelling. */
function tableOf(settings: readonly string[], edition?: (typeof tableEditions)[number]): ObservedNft {
  const key = [edition, ...settings].join('\n');
  const known = tables.get(key);
  if (known) return known;
  const { chains, ...others } = readTableText(printNftTable(tableOptions(settings), edition));
  const table = { ...others, chains: new Map([...chains].map(([name, rules]) => [name, rules.map(canonical)])) };
  const [oldest] = tables.keys();
  if (oldest !== undefined && tables.size >= tablesMax) tables.delete(oldest);
  tables.set(key, table);
  return table;
}

/** Whether the kernel has the table of a state, of any edition: its sets, maps and chains, except those of lists. */
export function hasTable({ parts, chains }: ObservedNft, settings: readonly string[]): boolean {
  return tableEditions.toReversed().some((edition) => {
    const table = tableOf(settings, edition);
    return (
      [...table.parts].every((part) => parts.has(part)) &&
      [...table.chains].every(([name, rules]) => sameRules(chains.get(name), rules))
    );
  });
}

/** What another program added to the table of a state, as nft names it: `chain x`, `map y`. */
export function foreignObjects({ parts }: ObservedNft, settings: readonly string[]): readonly string[] {
  const own = tableOf(settings).parts;
  const isList = (part: string): boolean => listOf(part.replace(/^chain /, '')) !== undefined;
  return [...parts].filter((part) => !own.has(part) && !isList(part));
}

/** The names of the sets and maps that the table of a state has. */
export const ownSets = (settings: readonly string[]): ReadonlySet<string> => new Set(tableOf(settings).elements.keys());

/** The list to which a chain belongs: `s3t600` of `s3t600-known`. @returns undefined for another chain */
function listOf(name: string): string | undefined {
  const list = name.replace(/-known$/, '');
  const read = readListName(list);
  return read && (list === name || read.seconds !== undefined) ? list : undefined;
}

/** Reads the table as Sluice writes it, which has each set on one line. */
export function readTableText(text: string): ObservedNft {
  const reader = new NftReader();
  reader.take(
    text.replaceAll(/^ *(set|map) (\S+) \{ (?:.* (counter);|.*) \}$/gm, (_all, kind, name, counter = '') =>
      [kind, ' ', name, ' {\n', counter, '\n}'].join(''),
    ),
  );
  return reader.done();
}

/** The chains of lists that are not as Sluice creates them, by name: another program changed their rules. */
export function damagedLists({ chains }: ObservedNft): ReadonlySet<string> {
  const damaged = new Set<string>();
  for (const name of chains.keys()) {
    if (!readListName(name)) continue;
    for (const [chain, rules] of rulesOfList(name)) if (!sameRules(chains.get(chain), rules)) damaged.add(name);
  }
  return damaged;
}

/** The rules that `listChain` adds, by chain, in the one spelling. */
function rulesOfList(name: string): ReadonlyMap<string, readonly string[]> {
  const rules = new Map<string, string[]>();
  for (const command of listChain(name)) {
    const [, verb, chain = '', rule = ''] = /^add (chain|rule) inet sluice (\S+) ?(.*)$/.exec(command) ?? [];
    if (verb === 'chain') rules.set(chain, []);
    else rules.get(chain)?.push(canonical(rule));
  }
  return rules;
}

/** @param expected in the one spelling */
const sameRules = (actual: readonly string[] | undefined, expected: readonly string[]): boolean =>
  actual?.length === expected.length && actual.every((rule, at) => canonical(rule) === expected[at]);

/** A rule in one spelling: with `-n` nft prints numbers where rules are written with words, and versions differ in some defaults. */
function canonical(rule: string): string {
  let text = rule;
  for (const [form, word] of spellings) text = text.replaceAll(form, word);
  return text.replaceAll(/\btimeout (?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?= |$)/g, (_all, ...parts) => {
    const [days, hours, minutes, seconds] = parts.slice(0, 4).map((part) => Number(part ?? 0)) as [
      number,
      number,
      number,
      number,
    ];
    return `timeout ${((days * 24 + hours) * 60 + minutes) * 60 + seconds}`;
  });
}

const spellings: readonly (readonly [RegExp, string])[] = [
  [/\bmeta l4proto tcp\b/g, 'meta l4proto 6'],
  [/\bmeta l4proto udp\b/g, 'meta l4proto 17'],
  [/\bmeta l4proto sctp\b/g, 'meta l4proto 132'],
  [/\btype (!= )?local\b/g, 'type $12'],
  [/\bct status dnat\b/g, 'ct status 0x20'],
  [/\bct state new\b/g, 'ct state 0x8'],
  [/\b(?<=!= |priority set )none\b/g, '0'],
  [/\breject with icmp(?:v6)? \S+/g, 'reject'],
  [/\b0xffffffff\b/g, '4294967295'],
  [/\bipv4(?= :| (?:jump|goto) )/g, '2'],
  [/\bipv6(?= :| (?:jump|goto) )/g, '10'],
  [/ ?policy accept;/g, ''],
];
