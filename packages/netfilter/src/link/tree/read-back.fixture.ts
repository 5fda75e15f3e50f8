import type { Family, TableName } from '../../family.ts';
import { printRule } from '../../rules/print.ts';
import { readRule } from '../../rules/read.ts';
import { isRuleError } from '../../rules/rule.ts';
import { targetOf } from '../../rules/words.ts';
import { tableNames } from '../program.ts';
import { isTreeChain } from './entries.ts';
import { providedChains } from './base-chains.ts';
import { digestOf, stemOf } from './names.ts';

/** Sluice's part of one table of the kernel. */
interface ReadBackTable {
  /** Tagged chains with the digest of their rules: equal to `TreeChain.digest` of an unmodified chain. */
  readonly chains: ReadonlyMap<string, string>;
  /** The rules of entry chains, base chains and provided chains of kube-proxy, as iptables-save prints them. */
  readonly others: ReadonlyMap<string, readonly string[]>;
  /** Jumps from other chains to any of these, in their order. */
  readonly jumps: readonly string[];
}

/**
 * Reads the chains of layout `tree` from the output of iptables-save for one family.
 * @param text of one or more tables; a missing table is read as empty
 */
export function readBack(text: string, family: Family): Readonly<Record<TableName, ReadBackTable>> {
  const tables = { filter: new TableReader(family), nat: new TableReader(family) };
  let open: TableReader | undefined;
  for (let at = 0; at < text.length; ) {
    const found = text.indexOf('\n', at);
    const end = found < 0 ? text.length : found;
    const line = text.slice(at, end);
    at = end + 1;
    if (line.startsWith('*')) {
      const name = tableNames.find((known) => known === line.slice(1));
      open = name && tables[name];
    } else if (line.startsWith(':')) open?.declare(line.slice(1, line.indexOf(' ')));
    else if (line.startsWith('-A ')) open?.rule(line);
  }
  return { filter: tables.filter.done(), nat: tables.nat.done() };
}

const provided: ReadonlySet<string> = new Set(providedChains);

class TableReader {
  readonly #family: Family;
  /** The rules of each tagged chain, without `-A <name> `. */
  readonly #tagged = new Map<string, string[]>();
  readonly #others = new Map<string, string[]>();
  readonly #jumps: string[] = [];

  constructor(family: Family) {
    this.#family = family;
  }

  declare(chain: string): void {
    if (stemOf(chain) !== undefined) this.#tagged.set(chain, []);
    else if (isTreeChain(chain) || provided.has(chain)) this.#others.set(chain, []);
  }

  rule(line: string): void {
    const end = line.indexOf(' ', 3);
    const chain = end < 0 ? line.slice(3) : line.slice(3, end);
    const tagged = this.#tagged.get(chain);
    if (tagged) {
      tagged.push(spell(line, this.#family).slice(4 + chain.length));
      return;
    }
    const other = this.#others.get(chain);
    const target = other ? undefined : targetOf(line);
    if (other) other.push(spell(line, this.#family));
    else if (target !== undefined && this.#isOurs(target)) this.#jumps.push(line);
  }

  #isOurs(chain: string): boolean {
    return this.#tagged.has(chain) || this.#others.has(chain);
  }

  done(): ReadBackTable {
    const chains = new Map<string, string>();
    for (const [name, rules] of this.#tagged) {
      const body = rules.map((rule) => `${rule}\n`).join('');
      chains.set(name, digestOf(stemOf(name) as string, body));
    }
    return { chains, others: this.#others, jumps: this.#jumps };
  }
}

/** IPv6 addresses with an embedded IPv4 address (`::1.2.3.4`), as only the C library prints them. */
const mixedAddress = /:\d+\.\d+\.\d+\.\d+/;

function spell(line: string, family: Family): string {
  if (family === 'ipv4' || !mixedAddress.test(line)) return line;
  const rule = readRule(line, family, 'program');
  return isRuleError(rule) ? line : printRule(rule, family);
}
