import type { Family } from '@sluice/netfilter';
import type { NftChainFacts, NftRuleFacts, NftTableFacts } from '../doctor/path/nft-expression.ts';
import type { SavedTable } from '../doctor/facts.ts';
import type { Run } from '../kernel/command.ts';
import { findTool, type RuleStore } from '../kernel/tools.ts';
import { bounds } from './bounds.ts';

/** Chains of single Services: there may be 60,000, and the comparison with the active generation judges them. */
const ofOneService = /^(?:KUBE-(?:SVC|SVL|SEP|EXT|FW|XLB)-|SLU-|SLUICE-[RT]-)/;

/**
 * Reads all tables of a rule store and family. Saving needs no lock and creates no table.
 * @throws Error when the tool fails
 */
export async function readTables(store: RuleStore, family: Family, run: Run): Promise<readonly SavedTable[]> {
  const file = findTool(`${family === 'ipv4' ? 'iptables' : 'ip6tables'}-${store}-save`);
  if (file === undefined) return [];
  const reader = new TableReader(store, family);
  const ran = await run({ file, args: [], timeoutMs: bounds.toolMs, onOutput: (part) => reader.take(part) });
  if (ran.exitCode !== 0) throw new Error(ran.why);
  return reader.done();
}

type Building = Map<string, { policy: string; rules: string[] }>;

/** Reads the output of `iptables-save` in parts. */
class TableReader {
  readonly #store: RuleStore;
  readonly #family: Family;
  readonly #tables = new Map<string, Building>();
  #table: Building | undefined;
  #rest = '';

  constructor(store: RuleStore, family: Family) {
    this.#store = store;
    this.#family = family;
  }

  take(part: string): void {
    const lines = `${this.#rest}${part}`.split('\n');
    this.#rest = lines.pop() ?? '';
    for (const line of lines) this.#line(line);
  }

  done(): readonly SavedTable[] {
    this.take('\n');
    return [...this.#tables].map(([table, chains]) => ({ store: this.#store, family: this.#family, table, chains }));
  }

  #line(line: string): void {
    if (line.startsWith('*')) {
      this.#table = new Map();
      this.#tables.set(line.slice(1).trim(), this.#table);
      return;
    }
    const [, name = '', policy = ''] = /^:(\S+) (\S+)/.exec(line) ?? [];
    if (name !== '' && !ofOneService.test(name)) this.#table?.set(name, { policy, rules: [] });
    const [, chain = ''] = /^-A (\S+) /.exec(line) ?? [];
    const rules = this.#table?.get(chain)?.rules;
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
  const foreign = (pick(await jsonOf(nft, ['list', 'tables'], run), 'table') as readonly ListedTable[]).filter(
    isForeign,
  );
  return Promise.all(foreign.slice(0, bounds.nftTables).map((table) => readTable(nft, table, run)));
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
