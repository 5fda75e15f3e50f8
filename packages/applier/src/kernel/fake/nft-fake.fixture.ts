import { KernelError } from '../../ports/failure.ts';
import { nftTableName } from '@sluice/netfilter';
import { type ObservedNft, readTableText } from '../../ports/nftables/observed.ts';
import type { NftKernel, NftLack } from '../../ports/nftables/ports.ts';
import { Interrupted } from '../../apply/transaction/restore.ts';
import type { NftSets, SetMember } from '../nft/nft-switch.ts';

/** An element and the end of its time. */
interface FakeElement {
  readonly value: string;
  readonly untilMs: number;
}

interface FakeTable {
  readonly elements: Map<string, Map<string, FakeElement>>;
  readonly chains: Map<string, string[]>;
  readonly parts: Set<string>;
}

/** The table of mode nftables of a kernel in memory: it takes the texts of `nft -f`, each whole or not at all. */
export class FakeNft implements NftKernel, NftSets {
  readonly #nowMs: () => number;
  #table: FakeTable | undefined;
  /** Transactions that were taken. */
  changes = 0;

  /** @param nowMs the kernel's clock */
  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** A reboot. */
  clear(): void {
    this.#table = undefined;
  }

  async observe(interrupt?: AbortSignal): Promise<ObservedNft | undefined> {
    if (interrupt?.aborted === true) throw new Interrupted();
    return this.list();
  }

  /** The table at this moment; undefined without one. */
  list(): ObservedNft | undefined {
    if (!this.#table) return undefined;
    const elements = new Map(
      [...this.#table.elements].map(([set, held]) => {
        const living = [...held].filter(([, { untilMs }]) => untilMs > this.#nowMs());
        return [set, new Map(living.map(([key, { value }]) => [key, value] as const))] as const;
      }),
    );
    const chains = new Map([...this.#table.chains].map(([name, rules]) => [name, [...rules]] as const));
    return { elements, chains, parts: new Set(this.#table.parts) };
  }

  async exists(): Promise<boolean> {
    return this.#table !== undefined;
  }

  /** Why it cannot write, which a test sets. */
  lacks: NftLack | undefined;

  async lack(): Promise<NftLack | undefined> {
    return this.lacks;
  }

  async apply({ text }: { readonly text: string }): Promise<void> {
    await this.load(text);
  }

  async members(set: string): Promise<readonly SetMember[] | undefined> {
    const held = this.#table?.elements.get(set);
    return (
      held &&
      [...held].flatMap(([key, { untilMs }]) =>
        untilMs > this.#nowMs() ? [{ key, isTimed: untilMs !== Infinity }] : [],
      )
    );
  }

  async load(text: string): Promise<void> {
    const now = this.#table;
    let table: FakeTable | undefined = now && {
      elements: new Map([...now.elements].map(([set, held]) => [set, new Map(held)])),
      chains: new Map([...now.chains].map(([name, rules]) => [name, [...rules]])),
      parts: new Set(now.parts),
    };
    for (const command of commandsOf(text)) table = this.#execute(table, command);
    if (table) checkVerdicts(table);
    this.#table = table;
    this.changes += 1;
  }

  #execute(table: FakeTable | undefined, command: string): FakeTable | undefined {
    if (command.startsWith(`table ${nftTableName} {`)) {
      if (table) throw refused('the table exists');
      return tableFrom(command);
    }
    if (!table) throw refused(`there is no table: ${command}`);
    if (command === `delete table ${nftTableName}`) return undefined;
    const [, verb = '', kind = '', name = '', rest = ''] =
      /^(add|delete|flush) (element|set|map|chain|rule|counter) inet sluice (\S+) ?(.*)$/.exec(command) ?? [];
    if (['set', 'map', 'chain', 'counter'].includes(kind)) changeObjects(table, verb, `${kind} ${name}`);
    if (kind === 'element') this.#changeElements(elementsIn(table, name), verb === 'add', rest);
    else if (verb === 'flush' && (kind === 'set' || kind === 'map')) elementsIn(table, name).clear();
    else if (kind === 'set' || kind === 'map') changeSets(table, verb, name);
    else if (verb === 'add' && kind === 'chain') table.chains.set(name, table.chains.get(name) ?? chainFrom(rest));
    else if (verb === 'delete' && kind === 'chain') deleteChain(table, name);
    else if (kind === 'counter') return table;
    else if (verb === 'flush' && kind === 'chain') rulesIn(table, name).splice(0, Infinity);
    else if (verb === 'add' && kind === 'rule') rulesIn(table, name).push(rest);
    else throw refused(`the command is not taken: ${command}`);
    return table;
  }

  #changeElements(held: Map<string, FakeElement>, isAdded: boolean, text: string): void {
    for (const one of text.slice(2, -2).split(', ')) {
      const [start = '', value = ''] = one.split(' : ');
      const [key = '', timeout] = start.split(' timeout ');
      const before = held.get(key);
      const isThere = before !== undefined && before.untilMs > this.#nowMs();
      if (!isAdded && !isThere) throw refused(`there is no element ${key}`);
      if (!isAdded) held.delete(key);
      else if (isThere && before.value !== value) throw refused(`element ${key} exists with another value`);
      else
        held.set(key, {
          value,
          untilMs: timeout === undefined ? Infinity : this.#nowMs() + Number.parseInt(timeout, 10) * 1000,
        });
    }
  }
}

const refused = (why: string): KernelError => new KernelError('fake nft', why, 'refused');

/** The commands of a text: the table as one, and one on each other line. */
function commandsOf(text: string): readonly string[] {
  const end = text.startsWith('table ') || text.includes('\ntable ') ? text.indexOf('\n}\n') : -1;
  if (end < 0) return text.split('\n').filter((line) => line !== '');
  const start = text.indexOf('table inet sluice {');
  const lines = (part: string): readonly string[] => part.split('\n').filter((line) => line !== '');
  return [...lines(text.slice(0, start)), text.slice(start, end + 3), ...lines(text.slice(end + 3))];
}

function tableFrom(text: string): FakeTable {
  const { elements, chains, parts } = readTableText(text);
  return {
    parts: new Set(parts),
    elements: new Map([...elements.keys()].map((set) => [set, new Map<string, FakeElement>()])),
    chains: new Map([...chains].map(([name, rules]) => [name, [...rules]])),
  };
}

function changeObjects({ parts }: FakeTable, verb: string, part: string): void {
  if (verb !== 'add' && !parts.has(part)) throw refused(`there is no ${part}`);
  if (verb === 'delete') parts.delete(part);
  else parts.add(part);
}

function changeSets({ elements }: FakeTable, verb: string, name: string): void {
  if (verb === 'delete') elements.delete(name);
  else elements.set(name, elements.get(name) ?? new Map<string, FakeElement>());
}

/** A base chain has its hook among its rules, as in a listing. */
const chainFrom = (text: string): string[] => (text === '' ? [] : [text.slice(2, -2)]);

function deleteChain({ elements, chains }: FakeTable, name: string): void {
  const leads = new RegExp(`(?:goto|jump) ${name}\\b(?![-.])`);
  const texts = [...chains.values()]
    .flat()
    .concat([...elements.values()].flatMap((held) => [...held.values()].map(({ value }) => value)));
  if (texts.some((text) => leads.test(text))) throw refused(`chain ${name} is in use`);
  chains.delete(name);
}

function elementsIn(table: FakeTable, set: string): Map<string, FakeElement> {
  const held = table.elements.get(set);
  if (!held) throw refused(`there is no set ${set}`);
  return held;
}

function rulesIn(table: FakeTable, chain: string): string[] {
  const rules = table.chains.get(chain);
  if (!rules) throw refused(`there is no chain ${chain}`);
  return rules;
}

function checkVerdicts({ elements, chains }: FakeTable): void {
  for (const held of elements.values()) {
    for (const { value } of held.values()) {
      const chain = /^goto (\S+)$/.exec(value)?.[1];
      if (chain !== undefined && !chains.has(chain)) throw refused(`a verdict leads to ${chain}, which is not there`);
    }
  }
}
