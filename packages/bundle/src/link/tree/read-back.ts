import type { Family, TableName } from '../../rulefile.ts';
import { printRule } from '../../rules/print.ts';
import { readRule } from '../../rules/read.ts';
import { isRuleError } from '../../rules/rule.ts';
import { targetOf } from '../../rules/words.ts';
import { tableNames } from '../program.ts';
import { isTreeChain } from './entries.ts';
import { providedChains } from './base-chains.ts';
import { digestOf, stemOf } from './names.ts';

/** What of ours a kernel holds in one table. */
export interface HeldTable {
  /** Tagged chains with the digest of what is in them: equal to `TreeChain.digest` where that is what was loaded. */
  readonly chains: ReadonlyMap<string, string>;
  /** The rules of entry chains, fixtures and chains of kube-proxy that we may provide, as iptables-save prints them. */
  readonly others: ReadonlyMap<string, readonly string[]>;
  /** Rules in other chains that lead to any of these, in their order. */
  readonly jumps: readonly string[];
}

/**
 * Reads what iptables-save prints of one family, as far as chains of layout `tree` go.
 * @param text of one or more tables; a table that is not there is empty
 */
export function readBack(text: string, family: Family): Readonly<Record<TableName, HeldTable>> {
  const tables = { filter: new Reading(family), nat: new Reading(family) };
  let open: Reading | undefined;
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

class Reading {
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

  done(): HeldTable {
    const chains = new Map<string, string>();
    for (const [name, rules] of this.#tagged) {
      const body = rules.map((rule) => `${rule}\n`).join('');
      chains.set(name, digestOf(stemOf(name) as string, body));
    }
    return { chains, others: this.#others, jumps: this.#jumps };
  }
}

/** IPv6 addresses that hold an IPv4 address (`::1.2.3.4`): the C library prints them in a form that nobody else uses. */
const mixedAddress = /:\d+\.\d+\.\d+\.\d+/;

function spell(line: string, family: Family): string {
  if (family === 'ipv4' || !mixedAddress.test(line)) return line;
  const rule = readRule(line, family, 'program');
  return isRuleError(rule) ? line : printRule(rule, family);
}
