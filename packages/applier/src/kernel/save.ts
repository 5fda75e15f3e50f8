import { type FamilyProgram, isRuleLine, ruleLinesOf, type TableName, tableNames } from '@sluice/netfilter';
import type { ObservedChain, ObservedFamily, ObservedTable } from '../ports/node-state.ts';

const declaration = /^:(\S+) (\S+)/;

/**
 * Reads the output of `iptables-save` of one family, in parts as they come, and keeps no copy of known rules: a chain with the rules of a
 * known one has the very same value. So reading 230,000 rules costs no memory for them, and a comparison with the known rules compares
 * identities. Tables other than filter and nat are ignored; one that is not printed is empty.
 */
export class SaveReader {
  readonly #known: FamilyProgram | undefined;
  readonly #tables: Record<TableName, Map<string, ChainReading>> = { filter: new Map(), nat: new Map() };
  #table: TableName | undefined;
  /** The chain of the previous rule, whose rules are adjacent, and their common prefix. */
  #chain: ChainReading | undefined;
  #prefix = '';
  /** The first line that is none of `iptables-save`: another program printed it. */
  strange: string | undefined;
  #isInTable = false;
  /** The beginning of an incomplete line. */
  #rest = '';

  /** @param known the rules that the kernel probably holds */
  constructor(known?: FamilyProgram) {
    this.#known = known;
  }

  /** Takes a part of the text; it may end anywhere. */
  take(part: string): void {
    const text = this.#rest + part;
    let at = 0;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', at)) {
      this.#line(text.slice(at, end));
      at = end + 1;
    }
    this.#rest = text.slice(at);
  }

  /** The result, after the whole text. */
  done(): ObservedFamily {
    this.take('\n');
    return { filter: tableOf(this.#tables.filter), nat: tableOf(this.#tables.nat) };
  }

  #line(line: string): void {
    if (isRuleLine(line)) this.#rule(line);
    else if (line.startsWith(':')) this.#declare(line);
    else if (line.startsWith('*')) {
      this.#isInTable = true;
      this.#table = tableNames.find((known) => known === line.slice(1).trim());
      this.#prefix = '';
    } else if (line === 'COMMIT') this.#isInTable = false;
    else if (line !== '' && !line.startsWith('#')) this.strange ??= line;
  }

  /** Whether the text ended inside of a table. */
  get isCut(): boolean {
    return this.#isInTable;
  }

  #declare(line: string): void {
    const [, name, policy] = declaration.exec(line) ?? [];
    if (name === undefined || this.#table === undefined) return;
    const known = this.#known?.[this.#table].chains.get(name);
    this.#tables[this.#table].set(name, new ChainReading(policy !== '-', known));
  }

  #rule(line: string): void {
    if (this.#table === undefined) return;
    if (this.#prefix === '' || !line.startsWith(this.#prefix)) {
      const end = line.indexOf(' ', 3);
      const name = end < 0 ? line.slice(3) : line.slice(3, end);
      this.#chain = this.#tables[this.#table].get(name);
      this.#prefix = end < 0 ? '' : line.slice(0, end + 1);
    }
    this.#chain?.add(line);
  }
}

/** A chain that is being read. As long as its rules are the known ones, it has none of its own. */
class ChainReading {
  readonly builtIn: boolean;
  readonly #known: readonly string[];
  #count = 0;
  #own: string[] | undefined;

  constructor(builtIn: boolean, known: readonly string[] = []) {
    this.builtIn = builtIn;
    this.#known = known;
  }

  add(rule: string): void {
    if (this.#own) this.#own.push(rule);
    else if (this.#known[this.#count] === rule) this.#count += 1;
    else this.#own = [...this.#known.slice(0, this.#count), rule];
  }

  get rules(): readonly string[] {
    return this.#own ?? (this.#count === this.#known.length ? this.#known : this.#known.slice(0, this.#count));
  }
}

function tableOf(read: ReadonlyMap<string, ChainReading>): ObservedTable {
  const chains = new Map<string, ObservedChain>();
  for (const [name, { builtIn, rules }] of read) chains.set(name, { builtIn, rules });
  return { chains };
}

/** Reads the output of `iptables -S CHAIN`: the rules of one chain. */
export function readList(text: string): readonly string[] {
  return ruleLinesOf(text.split('\n'));
}
