import { canonicalRules } from './canonical.ts';
import { UnreadText } from './nft-text/unread-text.ts';

/** The tables that the kernel has (`ip_tables` and its nft counterpart). */
const tableNames: ReadonlySet<string> = new Set(['raw', 'mangle', 'nat', 'filter', 'security']);

/** A line that no save tool prints at its place. */
interface OddLine {
  readonly index: number;
  readonly why: string;
}

/**
 * The first line that a save tool does not print at its place, as in a file that was cut, edited, or put together of two. Chains are followed
 * by their names, so that what such a line says would be left out.
 * @param lines without comments and counters
 */
export function oddRuleLine(lines: readonly string[]): OddLine | undefined {
  const closed = new Set<string>();
  let table: string | undefined;
  let chains = new Set<string>();
  for (const [index, line] of lines.entries()) {
    const odd = (why: string): OddLine => ({ index, why });
    const [, name, chain, target] = /^(?:\*(\w+)|:(\S+) \S+|-A (\S+)(?: .+)?|COMMIT)$/.exec(line) ?? [];
    const isEnd = line === 'COMMIT';
    const isInside = isEnd || chain !== undefined || target !== undefined;
    if (name !== undefined) {
      if (table !== undefined) return odd(`it is truncated: table ${table} has no COMMIT`);
      if (!tableNames.has(name)) return odd(`table ${name} is not followed`);
      if (closed.has(name)) return odd(`it has table ${name} twice: save each rule store in a file of its own`);
      table = name;
      chains = new Set();
    } else if (table === undefined || !isInside) {
      return odd(`it has the line ${JSON.stringify(line.slice(0, 100))}`);
    } else if (isEnd) {
      closed.add(table);
      table = undefined;
    } else if (chain !== undefined) {
      if (chains.has(chain)) return odd(`it declares chain ${chain} twice`);
      chains.add(chain);
    } else if (target !== undefined && !chains.has(target)) {
      return odd(`it has a rule of chain ${target}, which it does not declare`);
    }
  }
  return table === undefined ? undefined : { index: lines.length - 1, why: 'it is truncated: a table has no COMMIT' };
}

/**
 * A saved text without what a ticket adds: lines before its first that are a prompt with the command, and an indentation that all lines
 * have.
 */
export function savedRuleText(text: string): string {
  const lines = text.split('\n').map((line) => (promptForm.test(line) ? '' : line));
  const indents = lines.flatMap((line) => (line.trim() === '' ? [] : (/^[ \t]*/.exec(line)?.[0] ?? '')));
  const indent = indents.reduce((least, one) => (one.length < least.length ? one : least), indents[0] ?? '');
  if (indent === '' || !indents.every((one) => one.startsWith(indent))) return lines.join('\n');
  return lines.map((line) => line.slice(indent.length)).join('\n');
}

/** `root@node-1:~# iptables-save`, `$ sudo ip6tables-save -c` */
const promptForm = /^\s*(?:[^\s#*:-][^#$>]*)?[#$>] (?:sudo )?\S*ip6?tables\S*-save\b/;

/** Listings of iptables that are no saved rules: some lack tables, others counters of interfaces. */
function listingIn(lines: readonly string[]): string | undefined {
  if (lines.some((line) => /^Chain \S+ \((?:policy |\d+ references)/.test(line))) return 'iptables -L';
  return lines.some((line) => /^-[PN] \S+/.test(line)) && !lines.some((line) => line.startsWith('*'))
    ? 'iptables -S'
    : undefined;
}

/**
 * Reads what a save tool of iptables prints.
 * @returns its lines, without comments and counters
 * @throws UnreadText
 */
export function readRuleText(text: string): readonly string[] {
  // `# Table `filter' is incompatible, use 'nft' tool.`: iptables-nft-save leaves out what iptables did not make.
  const all = text.split('\n');
  const left = all.findIndex((line) => /^# Table .*\bincompatible\b/.test(line));
  if (left >= 0) throw new UnreadText(`the tool says ${JSON.stringify(all[left]?.slice(2, 102))}`, left + 1);
  const listing = listingIn(all);
  if (listing !== undefined) throw new UnreadText(`this is the output of \`${listing}\`: save \`iptables-save\``);
  const lines = canonicalRules(text);
  const odd = oddRuleLine(lines);
  if (odd) throw new UnreadText(odd.why, lineOf(all, odd.index));
  return lines;
}

/** The number of a line in a text, by its place among those that count. */
function lineOf(all: readonly string[], index: number): number {
  let left = index;
  return all.findIndex((line) => line.trim() !== '' && !line.startsWith('#') && left-- === 0) + 1;
}
