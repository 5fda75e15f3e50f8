import type { SavedFiles } from '../../packages/review/src/parity/observed.fixture.ts';
import type { WildRules } from './wild.ts';

interface Table {
  readonly chains: Map<string, string>;
  readonly rules: string[];
}

function tablesIn(text: string): Map<string, Table> {
  const tables = new Map<string, Table>();
  let table: Table = { chains: new Map(), rules: [] };
  for (const line of text.split('\n')) {
    if (line.startsWith('*')) {
      table = { chains: new Map(), rules: [] };
      tables.set(line.slice(1), table);
    } else if (line.startsWith(':')) table.chains.set(/^:(\S+)/.exec(line)?.[1] ?? '', line);
    else if (line.startsWith('-A ')) table.rules.push(line);
  }
  return tables;
}

const print = (tables: ReadonlyMap<string, Table>): string =>
  [...tables]
    .map(([name, { chains, rules }]) => [`*${name}`, ...chains.values(), ...rules, 'COMMIT\n'].join('\n'))
    .join('');

/** Both rules of a store, those of the program before or behind the proxy's in each chain that both use; its policies count. */
function merged(proxys: string, others: string, isFirst: boolean): string {
  const tables = tablesIn(proxys);
  for (const [name, { chains, rules }] of tablesIn(others)) {
    const own = tables.get(name) ?? { chains: new Map<string, string>(), rules: [] };
    for (const [chain, line] of chains) own.chains.set(chain, line);
    const all = isFirst ? [...rules, ...own.rules] : [...own.rules, ...rules];
    tables.set(name, { chains: own.chains, rules: all });
  }
  return print(tables);
}

/** What a node saves that has the rules of a program beside a proxy's. */
export function besideProxy(saved: SavedFiles, { files }: WildRules, isFirst: boolean): SavedFiles {
  const all: SavedFiles = new Map(saved);
  for (const [file, text] of files) {
    const before = saved.get(file) ?? '';
    all.set(file, file === 'ipset.txt' || file === 'nft.txt' ? `${before}${text}` : merged(before, text, isFirst));
  }
  if (files.has('nft.txt')) all.delete('nft.json');
  return all;
}
