import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { observationOf, type Observation, rulesIn, textsOf } from '@sluice/bundle';
import { readIptables, readLiveSets, readLiveTable, type LiveTable } from '@sluice/netfilter';

/**
 * Rule sets of programs that share nodes with a proxy: one file for each in `wild`, written from its documentation, short and in the forms
 * that it uses. The product's own readers read them.
 */
export interface WildRules {
  readonly name: string;
  /** Whose they are, and where that is documented. */
  readonly source: string;
  /** By the names that `sluice observe --from` knows. */
  readonly files: ReadonlyMap<string, string>;
}

/** One part of a rule, without its values: `-m conntrack --ctstate`, `ct state`, `-j CONNMARK --restore-mark`. */
export interface Form {
  readonly title: string;
  /** Why it is not followed; undefined: it is. */
  readonly unread: string | undefined;
}

const folder = join(import.meta.dirname, 'wild');

const fileNames: Readonly<Record<string, string>> = {
  'iptables-save': 'iptables-nft-save.txt',
  'ip6tables-save': 'ip6tables-nft-save.txt',
  nft: 'nft.txt',
  ipset: 'ipset.txt',
};

export const wildRules: readonly WildRules[] = readdirSync(folder)
  .toSorted()
  .map((file) => {
    const [head = '', ...sections] = readFileSync(join(folder, file), 'utf8').split(/^### /m);
    const files = sections.map((section): readonly [string, string] => {
      const end = section.indexOf('\n');
      return [fileNames[section.slice(0, end)] ?? '', section.slice(end + 1)];
    });
    return { name: file.replace('.txt', ''), source: head.replace(/^# /, '').trim(), files: new Map(files) };
  });

/** Of which programs a rule that no rule set decides is met by packets of Services, and what is named. */
export const named: Readonly<Record<string, RegExp>> = {
  'nftables-wiki':
    /hooks of bridge filter, netdev ingress_filter|skgid|ipsec|quota|ct bytes|ttl|length|cgroup|limit|socket|queue|synproxy|dscp/,
  'rhel-nftables': /denylist|ct mark/,
};
/** What the product reads of a rule set. */
export function observedWild({ files }: WildRules): Observation {
  const empty = [...Object.values(fileNames), 'iptables-legacy-save.txt', 'ip6tables-legacy-save.txt'];
  return observationOf(
    { node: 'node-1', tools: {} },
    textsOf(new Map([...empty.map((name) => [name, ''] as const), ...files])),
  );
}

/** Every form of each rule: it is followed where the reader of parity, tracer and doctor understands it alone, with all values of the rule. */
export function formsOf(rules: WildRules): readonly (readonly Form[])[] {
  const seen = observedWild(rules);
  const ofIptables = (['ipv4', 'ipv6'] as const).flatMap((family) => {
    const lines = rulesIn(seen, 'nft', family)?.lines ?? [];
    const chains = new Set(lines.flatMap((line) => /^:(\S+)/.exec(line)?.[1] ?? []));
    const unreadOf = (part: string): string | undefined => {
      const rule = `-A X ${part}${/^-[jg] /.test(part) ? '' : ' -j DROP'}`;
      const saved = ['*mangle', ...[...chains, 'X'].map((one) => `:${one} - [0:0]`), rule, 'COMMIT'];
      return reasonIn(readIptables({ store: 'nft', family, lines: saved }, readLiveSets(seen.sets)), 'X');
    };
    return lines
      .filter((line) => line.startsWith('-A '))
      .map((line) => partsOf(line).map((part): Form => ({ title: titleOf(part, chains), unread: unreadOf(part) })));
  });
  const ofNft = seen.nftTables.flatMap(({ objects, ...table }) => {
    const read = table.family === 'ip' || table.family === 'ip6' || table.family === 'inet' ? table.family : undefined;
    const others = objects.filter((one) => !('rule' in one) && !('chain' in one));
    return objects.flatMap((object): readonly (readonly Form[])[] => {
      const { expr } = (object['rule'] ?? {}) as { readonly expr?: readonly Json[] };
      return [
        (expr ?? []).map((statement): Form => {
          const title = titleOfStatement(statement);
          if (read === undefined)
            return { title: `${table.family}: ${title}`, unread: `tables of ${table.family} are not read` };
          const alone = [
            { chain: { name: 'x' } },
            { rule: { chain: 'x', expr: [statement, ...('match' in statement ? [{ drop: null }] : [])] } },
          ];
          return {
            title,
            unread: reasonIn([readLiveTable({ ...table, family: read, objects: [...others, ...alone] })], 'x'),
          };
        }),
      ].filter((forms) => forms.length > 0);
    });
  });
  return [...ofIptables, ...ofNft];
}

type Json = Readonly<Record<string, unknown>>;

const reasonIn = (tables: readonly LiveTable[], chain: string): string | undefined =>
  tables.flatMap(({ chains }) => chains.get(chain)?.rules() ?? []).find(({ unread }) => unread !== undefined)?.unread;

/** The tests and the target of a line of `iptables-save`, each with its options. */
function partsOf(line: string): readonly string[] {
  const words = line.match(/"(?:[^"\\]|\\.)*"|\S+/g) ?? [];
  const parts: string[][] = [];
  for (const [at, word] of words.slice(2).entries()) {
    const before = parts.at(-1);
    const isTarget = before?.[0] === '-j' || before?.[0] === '-g';
    const isStart = /^-[a-z]$/.test(word) && !isTarget;
    const isNegation = word === '!' && /^-[a-z]$/.test(words[at + 3] ?? '');
    if (isStart && before?.length === 1 && before[0] === '!') before.push(word);
    else if (isStart || isNegation || !before) parts.push([word]);
    else before.push(word);
  }
  return parts.map((part) => part.join(' '));
}

/** `-m conntrack --ctstate`, `-m addrtype --dst-type LOCAL`, `-j CONNMARK --restore-mark`, `-j (chain)`. */
function titleOf(part: string, chains: ReadonlySet<string>): string {
  const [first = '', name = '', ...rest] = part.replaceAll(/(?:^|(?<= ))! /g, '').split(' ');
  if (!['-m', '-j', '-g'].includes(first)) return first;
  if (chains.has(name)) return `${first} (chain)`;
  const options = rest.filter((word) => /^--\w/.test(word) || /^(?:LOCAL|BROADCAST|MULTICAST)$/.test(word));
  return [first, name, ...options].join(' ');
}

function titleOfStatement(statement: Json): string {
  const [name = ''] = Object.keys(statement);
  const body = statement[name] as Json | string | null;
  if (name === 'text' && typeof body === 'string') return body.split(' ').slice(0, 3).join(' ');
  if (body === null || typeof body === 'string') return name;
  if (name === 'match') return `${nameOf(body['left'])}${kindOf(body['right'])}`;
  if (name === 'vmap') return `${nameOf(body['key'])} vmap`;
  if (name === 'mangle') return `${nameOf(body['key'])} set`;
  if (name === 'set') return `${String(body['op'])} @set${body['stmt'] === undefined ? '' : ' { limit }'}`;
  return name;
}

/** `ip saddr`, `meta l4proto`, `tcp flags`; `& …` where bits of it are tested. */
function nameOf(expression: unknown): string {
  const found = (expression ?? {}) as Json;
  if (Array.isArray(found['&'])) return `${nameOf(found['&'][0])} & …`;
  if (Array.isArray(found['concat'])) return found['concat'].map(nameOf).join(' . ');
  const [kind = ''] = Object.keys(found);
  const of = (found[kind] ?? {}) as Json;
  const words = [
    of['dir'],
    of['protocol'],
    of['name'],
    ...[of['flags'] ?? []].flat(),
    of['field'],
    of['key'],
    of['result'],
  ];
  const text = words.filter((word) => typeof word === 'string').join(' ');
  return kind === 'payload' ? text : `${kind} ${text}`;
}

const kindOf = (right: unknown): string => (typeof right === 'string' && right.startsWith('@') ? ' @set' : '');
