import { type TableName, tableNames } from '@sluice/bundle';
import type { ObservedChain, ObservedFamily, ObservedTable } from '../rollout/state.ts';

const declaration = /^:(\S+) (\S+)/;

/**
 * Reads what `iptables-save` prints. Tables other than filter and nat are passed over.
 * @param text may hold several tables; a table that is not printed is empty
 */
export function readSave(text: string): ObservedFamily {
  const tables: Record<TableName, Map<string, { builtIn: boolean; rules: string[] }>> = {
    filter: new Map(),
    nat: new Map(),
  };
  let open: Map<string, { builtIn: boolean; rules: string[] }> | undefined;
  for (const line of text.split('\n')) {
    if (line.startsWith('-A ')) {
      const end = line.indexOf(' ', 3);
      open?.get(end < 0 ? line.slice(3) : line.slice(3, end))?.rules.push(line);
    } else if (line.startsWith(':')) {
      const [, name, policy] = declaration.exec(line) ?? [];
      if (name !== undefined) open?.set(name, { builtIn: policy !== '-', rules: [] });
    } else if (line.startsWith('*')) {
      const table = tableNames.find((known) => known === line.slice(1).trim());
      open = table === undefined ? undefined : tables[table];
    }
  }
  return { filter: tableFrom(tables.filter), nat: tableFrom(tables.nat) };
}

function tableFrom(chains: ReadonlyMap<string, ObservedChain>): ObservedTable {
  return { chains };
}

/** Reads what `iptables -S CHAIN` prints: the rules of one chain. */
export function readList(text: string): readonly string[] {
  return text.split('\n').filter((line) => line.startsWith('-A '));
}
