import {
  type Family,
  isInterface,
  isRuleError,
  listChain,
  readListName,
  readNftTable,
  readRule,
  readServerLine,
  readSetLine,
  ruleLimits,
} from '@sluice/netfilter';
import type { PartName } from './answer.ts';

/** An invalid or oversized request. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
}

/** Checks the lines of one part. */
interface LineReader {
  /** Why a line is not valid in the part; undefined when it is. */
  read(line: string): string | undefined;
  /** Why the part must not end here; undefined when it may. */
  end(): string | undefined;
}

/**
 * The grammar of a part, which is closed, as it is for bundles: iptables-restore has options that run programs (`-M`) or open files, and
 * the grammar has none of them.
 */
export function readersOf(name: PartName): LineReader {
  switch (name) {
    case 'sets':
      return each((line) => isSort(readSetLine(line), 'create', 'creates a set'));
    case 'servers':
      return each((line) => isSort(readServerLine(line), 'virtual', 'adds a virtual server'));
    case 'ipv4':
    case 'ipv6':
      return new RuleLines(name);
    case 'nft':
      return new NftLines();
  }
}

function each(read: LineReader['read']): LineReader {
  return { read, end: () => undefined };
}

/** Why a line is not of the one kind that the part has. */
function isSort(line: { kind: string } | { error: string }, kind: string, does: string): string | undefined {
  if ('error' in line) return line.error;
  return line.kind === kind ? undefined : `the line is not one that ${does}`;
}

/** `:SLU-SVC-NPX46M4PTMTKRN6Y.a1 - [0:0]`: the kernel limits names to 28 characters. */
const declaration = /^:[A-Z0-9][A-Za-z0-9.-]{0,27} - \[0:0\]$/;
/** `-I OUTPUT 1 …`: our jumps precede the rules of built-in chains. */
const insertion = /^-I (INPUT|FORWARD|OUTPUT|PREROUTING|POSTROUTING) [1-9][0-9]{0,3}(?= )/;

/** Tables from their names to COMMIT, with declarations of chains, rules and insertions. */
class RuleLines implements LineReader {
  readonly #family: Family;
  #isOpen = false;

  constructor(family: Family) {
    this.#family = family;
  }

  read(line: string): string | undefined {
    if (!this.#isOpen) {
      this.#isOpen = line === '*filter' || line === '*nat';
      return this.#isOpen ? undefined : 'a line is outside of the tables filter and nat';
    }
    if (line === 'COMMIT') {
      this.#isOpen = false;
      return undefined;
    }
    if (line.startsWith(':')) return declaration.test(line) ? undefined : 'the declaration of a chain is not valid';
    const rule = readRule(line.replace(insertion, '-A $1'), this.#family, 'program');
    return isRuleError(rule) ? rule.error : undefined;
  }

  end(): string | undefined {
    return this.#isOpen ? 'a table has no COMMIT' : undefined;
  }
}

/** An element, as `printElements` writes it: addresses, numbers, networks, and names of chains. */
const elements = /^add element inet sluice [a-z]+[46] \{ [0-9a-z:][-0-9a-z.:/, ]* \}$/;

/** The table as Sluice writes it, then chains of lists and elements. */
class NftLines implements LineReader {
  #table: string[] | undefined = [];
  /** The commands of the open chain that are still to come. */
  #expected: string[] = [];

  read(line: string): string | undefined {
    if (this.#table) return this.#readTable(line, this.#table);
    if (this.#expected.length > 0)
      return line === this.#expected.shift() ? undefined : 'the chain of a list has another rule';
    if (elements.test(line)) return undefined;
    const name = /^add chain inet sluice (\S+)$/.exec(line)?.[1]?.replace(/-known$/, '');
    if (name === undefined || !readListName(name)) return 'a line is neither the chain of a list nor an element';
    const [first, ...others] = listChain(name);
    this.#expected = others;
    return line === first ? undefined : 'the chain of a list has another rule';
  }

  #readTable(line: string, lines: string[]): string | undefined {
    lines.push(line);
    if (lines.length > tableLinesMax) return 'the table has too many lines';
    if (line !== '}') return undefined;
    this.#table = undefined;
    return isTable(lines) ? undefined : 'the table is not one of Sluice';
  }

  end(): string | undefined {
    return this.#table || this.#expected.length > 0 ? 'the table is not complete' : undefined;
  }
}

/** Whether the lines are the table as a bundle has it, except for the name of an interface. */
function isTable(lines: readonly string[]): boolean {
  const text = lines.map((line) => `${line}\n`).join('');
  const name = /iifname != "([^"]*)"/.exec(text)?.[1];
  if (name === undefined) return readNftTable(text) !== undefined;
  const asBundled = text.replaceAll(`iifname != "${name}"`, 'iifname != "${profile.bridgeInterface}"');
  return isInterface(name.replace(/\*$/, '+')) && readNftTable(asBundled) !== undefined;
}

/** Twice as many as it has. */
const tableLinesMax = 1_000;

/** An insertion has a few characters more than the rule that it inserts. */
const lineBytesMax = ruleLimits.ruleBytesMax + 16;

/**
 * Yields the whole lines of a text in pieces, after reading each.
 * @throws RequestError at the first invalid line, or at an end inside a line
 */
export async function* linesOf(pieces: AsyncIterable<string>, reader: LineReader): AsyncGenerator<string> {
  let rest = '';
  const must = (complaint: string | undefined): void => {
    if (complaint !== undefined) throw new RequestError(complaint);
  };
  for await (const piece of pieces) {
    const text = rest + piece;
    const end = text.lastIndexOf('\n') + 1;
    for (let at = 0; at < end; ) {
      const next = text.indexOf('\n', at);
      must(reader.read(text.slice(at, next)));
      at = next + 1;
    }
    rest = text.slice(end);
    if (rest.length > lineBytesMax) must('a line is too long');
    if (end > 0) yield text.slice(0, end);
  }
  must(rest === '' ? reader.end() : 'the last line is truncated');
}
