import { UnreadText } from './nft-text/unread-text.ts';
import { isOfIptables } from './nft-objects.ts';
import type { NftObject } from './observation.ts';
import { readElements } from './nft-text/expressions.ts';
import { readStatements } from './nft-text/statements.ts';
import { type Json, secondsOf, Words, wordsOf } from './nft-text/words.ts';

interface Block {
  readonly kind: string;
  readonly name: string;
  readonly lines: readonly string[];
  /** The number of the first of them in the listing. */
  readonly first: number;
}

/**
 * Reads what `nft list ruleset` prints, into the objects that `nft -j list ruleset` prints. Rules that are not read stay in their chain, as
 * a text. Comments, counters, handles and sizes are left out.
 * @throws UnreadText for a text that is no listing of tables, or a truncated one
 */
export function readNftText(text: string): readonly NftObject[] {
  return blocksIn(text.split('\n'), 1).flatMap(({ kind, name: title, lines, first }) => {
    const [family = '', name = ''] = title.split(' ');
    if (kind !== 'table') throw new UnreadText(`it has ${kind} ${title} outside of tables`, first - 1);
    // What iptables made, its save tool prints.
    if (isOfIptables(family, name)) return [];
    const of = { family, table: name };
    const isDormant = lines.some((line) => /^\s*flags .*\bdormant\b/.test(line));
    // Blank lines instead of these, so that numbers stay.
    const inner = lines.map((line) => (/^\t(?:comment |flags )/.test(line) ? '' : line));
    const objects = blocksIn(inner, first).flatMap((block) => numbered(block.first, () => objectsOf(block, of)));
    return [{ table: { family, name, ...(isDormant ? { flags: 'dormant' } : {}) } }, ...objects];
  });
}

const opening = /^\s*(table|set|map|chain|[a-z]+(?: [a-z]+)?) (\S+(?: \S+)?) \{(?: #.*)?$/;

/** The outermost blocks of lines. Elements of sets span lines, too, and end with a brace. */
function blocksIn(lines: readonly string[], first: number): readonly Block[] {
  const found: Block[] = [];
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? '';
    if (line.trim() === '' || line.trim().startsWith('#')) continue;
    const [, kind, name] = opening.exec(line) ?? [];
    if (kind === undefined || name === undefined)
      throw new UnreadText(`it has the line ${JSON.stringify(line.trim().slice(0, 100))}`, first + at);
    const indent = /^\s*/.exec(line)?.[0] ?? '';
    const end = lines.indexOf(`${indent}}`, at);
    if (end < 0) throw new UnreadText(`it is truncated: ${kind} ${name} has no end`, first + at);
    found.push({ kind, name, lines: lines.slice(at + 1, end), first: first + at + 1 });
    at = end;
  }
  return found;
}

/** Adds the line of a block to why it is not read. */
function numbered<T>(line: number, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw error instanceof UnreadText && error.line === undefined ? new UnreadText(error.message, line) : error;
  }
}

interface Place {
  readonly family: string;
  readonly table: string;
}

function objectsOf({ kind, name, lines }: Block, of: Place): readonly NftObject[] {
  if (kind === 'chain') return chainOf(name, lines, of);
  if (kind === 'set' || kind === 'map') return [{ [kind]: { ...of, name, ...setOf(lines, kind === 'map') } }];
  return [];
}

const hookForm = /^type (\w+) hook (\w+)(?: devices? (?:= )?\S.*?)? priority ([^;]{1,64});(?: policy (\w+);)?/;

function chainOf(name: string, lines: readonly string[], of: Place): readonly NftObject[] {
  const rules = lines.map((line) => line.trim()).filter((line) => line !== '' && !line.startsWith('comment '));
  // Its lines would read as rules that every packet of this chain meets.
  const inner = rules.find((line) => line.endsWith('{'));
  if (inner !== undefined)
    throw new UnreadText(`chain ${name} has a chain without a name: ${JSON.stringify(inner.slice(0, 100))}`);
  const [, type, hook = '', priority = '', policy = 'accept'] = hookForm.exec(rules[0] ?? '') ?? [];
  // Read as a rule, it would leave a chain that no packet meets.
  if (type === undefined && rules[0]?.startsWith('type '))
    throw new UnreadText(`chain ${name} has a head that is not read: ${JSON.stringify(rules[0].slice(0, 100))}`);
  const base = type === undefined ? {} : { type, hook, prio: priorityOf(priority), policy };
  return [
    { chain: { ...of, name, ...base } },
    ...(type === undefined ? rules : rules.slice(1)).map((line) => ({
      rule: { ...of, chain: name, expr: readStatements(new Words(wordsOf(line.replace(/ # handle \d+$/, '')))) },
    })),
  ];
}

/** `NF_IP_PRI_*` of `netfilter_ipv4.h`, by the names of nft. */
const priorities: Readonly<Record<string, number>> = {
  raw: -300,
  mangle: -150,
  dstnat: -100,
  filter: 0,
  security: 50,
  srcnat: 100,
};

/** `dstnat - 10`, `-150` */
function priorityOf(text: string): number {
  const [, name = '', sign, offset] = /^(\w+)(?: ([+-]) (\d+))?$/.exec(text) ?? [];
  const base = priorities[name];
  if (base !== undefined) return base + Number(`${sign ?? ''}${offset ?? 0}`);
  if (!/^-?\d+$/.test(text)) throw new UnreadText(`priority ${text} is not read`);
  return Number(text);
}

function setOf(lines: readonly string[], isMap: boolean): { readonly [name: string]: Json } {
  const options: Record<string, Json> = {};
  for (let at = 0; at < lines.length; at++) {
    const line = (lines[at] ?? '').trim();
    const [, flags] = /^flags (\S+)$/.exec(line) ?? [];
    const [, time] = /^timeout (\S+)$/.exec(line) ?? [];
    if (flags !== undefined) options['flags'] = flags.split(',');
    if (time !== undefined) {
      options['timeout'] = secondsOf(time) ?? 0;
      // The tool leaves this flag out where it prints a time, and no other flag.
      options['flags'] ??= ['timeout'];
    }
    if (!line.startsWith('elements = ')) continue;
    const text = lines.slice(at).join('\n').trim().slice('elements = '.length);
    options['elem'] = readElements(new Words(wordsOf(text)), isMap);
    break;
  }
  return options;
}
