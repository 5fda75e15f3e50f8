import { isOfIptables } from '@sluice/bundle';
import { addAll, type Family, objectOf, printStatements } from '@sluice/netfilter';
import type { NftTableFacts, UnprintedTable } from '../doctor/facts.ts';
import type { Run } from '../../kernel/command.ts';
import { findTool } from '../../kernel/tools.ts';
import { bounds } from './bounds.ts';
import { printedBy } from './printed.ts';

interface ListedBaseChain {
  readonly family: string;
  readonly table: string;
  readonly name: string;
  readonly hook?: string;
}
interface ListedRule {
  readonly chain: string;
  readonly handle: number;
  readonly expr: readonly unknown[];
}
type Listed = readonly Record<string, unknown>[];

/**
 * Reads the tables of nftables with base chains that neither iptables nor Sluice made. A table `ip filter` may have some of iptables and
 * others, which `iptables-save` does not print: of such a table these are read, with the chains to which they lead.
 * @throws Error when nft fails
 */
export async function readNftTables(run: Run): Promise<readonly NftTableFacts[]> {
  if (findTool('nft') === undefined) return [];
  // `nft list tables` reads all rules of all tables, 2 s of a processor at 10,000 Services; and packets meet base chains first.
  const listed = pick(await jsonOf(['list', 'chains'], run), 'chain') as readonly ListedBaseChain[];
  const foreign = Map.groupBy(listed.filter(isForeign), ({ family, table }) => `${family} ${table}`);
  return Promise.all(
    [...foreign.values()].slice(0, bounds.nftTables).map(async (chains): Promise<NftTableFacts> => {
      const [{ family, table } = chains[0] as ListedBaseChain] = chains;
      const names = chains.map(({ name }) => name);
      const objects = isOfIptables(family, table)
        ? await readChains([family, table], names, run)
        : await jsonOf(['-a', 'list', 'table', family, table], run);
      return { family: family as NftTableFacts['family'], name: table, ...withinBounds(objects) };
    }),
  );
}

/** Rules of one table that are named; more say nothing new. */
const namedMax = 5;

/**
 * The rules of a table of iptables that its own tool has no form for. It writes none without a counter, and asks for states through
 * extensions, so that such rules are another program's.
 * @throws Error when nft fails
 */
export async function readUnprinted(
  { family, table }: { readonly family: Family; readonly table: string },
  run: Run,
): Promise<UnprintedTable> {
  const ip = family === 'ipv4' ? 'ip' : 'ip6';
  const objects = findTool('nft') === undefined ? [] : await jsonOf(['-a', 'list', 'table', ip, table], run);
  const foreign = (pick(objects, 'rule') as readonly ListedRule[]).filter(({ expr }) => !isOfTool(expr));
  const rules = foreign.slice(0, namedMax).map(({ chain, handle, expr }) => ({
    chain: `${ip} ${table} ${chain}`,
    rule: `${ip} ${table} ${chain} handle ${handle} (${printStatements(expr)})`,
  }));
  return { table: `${family} ${table}`, rules };
}

/** Statements and matches that `iptables-nft` writes itself; the rest of its matches and targets are extensions. */
function isOfTool(expr: readonly unknown[]): boolean {
  const names = expr.map((one) => Object.keys(objectOf(one))[0] ?? '');
  const isPlain = expr.every((one) => {
    const { left, right } = objectOf(objectOf(one)['match']);
    return left === undefined || (objectOf(left)['ct'] === undefined && objectOf(right)['set'] === undefined);
  });
  return names.includes('counter') && isPlain && !names.includes('vmap');
}

/** What may be an argument. */
const nameForm = /^[A-Za-z0-9_./-]+$/;

function isForeign(chain: ListedBaseChain): boolean {
  const { family, table, name, hook } = chain;
  if (
    hook === undefined ||
    !['ip', 'ip6', 'inet'].includes(family) ||
    ![table, name].every((one) => nameForm.test(one))
  )
    return false;
  if (isOfIptables(family, table)) return !/^(?:PREROUTING|INPUT|FORWARD|OUTPUT|POSTROUTING)$/.test(name);
  return family !== 'inet' || table !== 'sluice';
}

/** Chains of a table, which may have 60,000 rules of Services, and those that they call. */
async function readChains(table: readonly [string, string], first: readonly string[], run: Run): Promise<Listed> {
  const objects: Record<string, unknown>[] = [];
  const names = new Set(first);
  // A set hands out what is added while it is read.
  for (const name of names) {
    const own = await jsonOf(['-a', 'list', 'chain', ...table, name], run);
    addAll(objects, own);
    const called = (pick(own, 'rule') as readonly ListedRule[]).flatMap(({ expr }) => expr.flatMap(calleeOf));
    for (const callee of called) if (names.size < bounds.nftChains) names.add(callee);
  }
  return objects;
}

function calleeOf(statement: unknown): readonly string[] {
  const { jump, goto = jump } = statement as { jump?: { target: string }; goto?: { target: string } };
  return goto && nameForm.test(goto.target) ? [goto.target] : [];
}

/** Chains, sets and maps, and the first rules of each chain. */
function withinBounds(objects: Listed): Pick<NftTableFacts, 'objects' | 'cut'> {
  const counts = new Map<string, number>();
  const kept = objects.filter((object) => {
    if (!('rule' in object)) return 'chain' in object || 'set' in object || 'map' in object;
    const { chain } = object['rule'] as ListedRule;
    const count = (counts.get(chain) ?? 0) + 1;
    counts.set(chain, count);
    return count <= bounds.rulesPerChain;
  });
  const cut = [...counts].flatMap(([chain, count]) => (count > bounds.rulesPerChain ? [chain] : []));
  return { objects: kept, ...(cut.length > 0 ? { cut } : {}) };
}

/** The objects of one kind; nft is trusted with their form. */
const pick = (objects: Listed, kind: string): readonly unknown[] =>
  objects.flatMap((one) => (kind in one ? [one[kind]] : []));

async function jsonOf(args: readonly string[], run: Run): Promise<Listed> {
  const printed = (await printedBy('nft', ['-j', ...args], run)) || '{}';
  return (JSON.parse(printed) as { readonly nftables?: Listed }).nftables ?? [];
}
