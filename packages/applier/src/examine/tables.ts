import type { Family } from '@sluice/netfilter';
import type { NftChainFacts, NftRuleFacts, NftTableFacts } from '../doctor/path/nft-expression.ts';
import type { SavedTable } from '../doctor/facts.ts';
import type { Run } from '../kernel/command.ts';
import { findTool, type RuleStore } from '../kernel/tools.ts';
import { bounds } from './bounds.ts';

/** Chains of single Services: there may be 60,000, and the comparison with the active generation judges them. */
const ofOneService = /^(?:KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB)-|SLU-|SLUICE-[RT]-)/;

/**
 * The tables of both rule stores. Rules that a comparison reads are kept on their way to it: at 10,000 Services a store takes seconds to
 * read. Saving needs no lock and creates no table.
 */
export class SavedTables {
  /** By the path of the tool that printed them. */
  readonly #read = new Map<string, TableReader>();

  /** The same, but keeps what tools print of whole stores. */
  keeping(run: Run): Run {
    return async (command) => {
      const { file, args, onOutput } = command;
      if (!file.endsWith('-save') || args.length > 0 || !onOutput) return run(command);
      const reader = new TableReader();
      const ran = await run({ ...command, onOutput: (part) => (onOutput(part), reader.take(part)) });
      if (ran.exitCode === 0) this.#read.set(file, reader);
      return ran;
    };
  }

  /**
   * All tables of a rule store and family, from what was kept, else from its tool. Without that tool there are none.
   * @throws Error when the tool fails
   */
  async of(store: RuleStore, family: Family, run: Run): Promise<readonly SavedTable[]> {
    const file = findTool(`${family === 'ipv4' ? 'iptables' : 'ip6tables'}-${store}-save`);
    if (file === undefined) return [];
    if (!this.#read.has(file)) {
      const ran = await this.keeping(run)({ file, args: [], timeoutMs: bounds.toolMs, onOutput: () => undefined });
      if (ran.exitCode !== 0) throw new Error(ran.why);
    }
    return [...(this.#read.get(file)?.done() ?? [])].map(([table, chains]) => ({ store, family, table, chains }));
  }
}

type Building = Map<string, { policy: string; rules: string[] }>;

/** Reads the output of `iptables-save` in parts. */
class TableReader {
  readonly #tables = new Map<string, Building>();
  #table: Building | undefined;
  #rest = '';

  take(part: string): void {
    const lines = `${this.#rest}${part}`.split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#line(line);
  }

  done(): ReadonlyMap<string, SavedTable['chains']> {
    this.take('\n');
    return this.#tables;
  }

  #line(line: string): void {
    if (line.startsWith('*')) {
      this.#table = new Map();
      this.#tables.set(line.slice(1).trim(), this.#table);
      return;
    }
    if (line.startsWith(':')) {
      const [, name = '', policy = ''] = /^:(\S+) (\S+)/.exec(line) ?? [];
      if (name !== '' && !ofOneService.test(name)) this.#table?.set(name, { policy, rules: [] });
      return;
    }
    const end = line.startsWith('-A ') ? line.indexOf(' ', 3) : -1;
    const rules = end < 0 ? undefined : this.#table?.get(line.slice(3, end))?.rules;
    if (rules && rules.length < bounds.rulesPerChain) rules.push(line);
  }
}

interface ListedTable {
  readonly family: string;
  readonly name: string;
}

/**
 * Reads the tables of nftables that neither iptables nor Sluice made, with their base chains.
 * @throws Error when nft fails
 */
export async function readNftTables(run: Run): Promise<readonly NftTableFacts[]> {
  const nft = findTool('nft');
  if (nft === undefined) return [];
  // `nft list tables` reads all rules of all tables, 2 s of a processor at 10,000 Services; and packets meet base chains first.
  const listed = pick(await jsonOf(nft, ['list', 'chains'], run), 'chain') as readonly ListedBaseChain[];
  const met = listed.filter(({ hook }) => hook !== undefined).map(({ family, table }) => ({ family, name: table }));
  const foreign = [...new Map(met.map((one) => [`${one.family} ${one.name}`, one])).values()].filter(isForeign);
  return Promise.all(foreign.slice(0, bounds.nftTables).map((table) => readTable(nft, table, run)));
}

interface ListedBaseChain {
  readonly family: string;
  readonly table: string;
  readonly hook?: string;
}

const ofIptables = /^(?:filter|nat|mangle|raw|security)$/;

function isForeign({ family, name }: ListedTable): boolean {
  if (!['ip', 'ip6', 'inet'].includes(family) || !/^[A-Za-z0-9_./-]+$/.test(name)) return false;
  return family === 'inet' ? name !== 'sluice' : !ofIptables.test(name);
}

interface ListedChain extends Omit<NftChainFacts, 'rules' | 'priority'> {
  readonly prio?: number;
}
interface ListedRule {
  readonly chain: string;
  readonly handle: number;
  readonly expr: readonly unknown[];
}

async function readTable(nft: string, { family, name }: ListedTable, run: Run): Promise<NftTableFacts> {
  const objects = await jsonOf(nft, ['-a', 'list', 'table', family, name], run);
  const chains = pick(objects, 'chain') as readonly ListedChain[];
  const rules = Map.groupBy(pick(objects, 'rule') as readonly ListedRule[], ({ chain }) => chain);
  return {
    family: family as NftTableFacts['family'],
    name,
    chains: chains.map(({ name: chain, type, hook, prio, policy }) => ({
      name: chain,
      ...(type === undefined ? {} : { type }),
      ...(hook === undefined ? {} : { hook }),
      ...(prio === undefined ? {} : { priority: prio }),
      ...(policy === undefined ? {} : { policy }),
      rules: (rules.get(chain) ?? [])
        .slice(0, bounds.rulesPerChain)
        .map(({ handle, expr }): NftRuleFacts => ({ handle, statements: expr })),
    })),
  };
}

/** The objects of one kind; nft is trusted with their form. */
const pick = (objects: readonly Record<string, unknown>[], kind: string): readonly unknown[] =>
  objects.flatMap((one) => (kind in one ? [one[kind]] : []));

async function jsonOf(nft: string, args: readonly string[], run: Run): Promise<readonly Record<string, unknown>[]> {
  const ran = await run({
    file: nft,
    args: ['-j', ...args],
    timeoutMs: bounds.toolMs,
    outputBytesMax: bounds.toolBytes,
  });
  if (ran.exitCode !== 0) throw new Error(ran.why);
  const parsed = JSON.parse(ran.stdout === '' ? '{}' : ran.stdout) as {
    readonly nftables?: readonly Record<string, unknown>[];
  };
  return parsed.nftables ?? [];
}
