import { compareText } from '../problem.ts';
import { type FrontendElements, frontendElements, chainsOf, settingsElements, type TableElement } from './elements.ts';
import { readFrontend } from './frontend.ts';
import { nftLimits } from './limits.ts';
import { listChain } from './lists.ts';
import type { NftState } from './state.ts';
import { nftTableName, printNftTable, tableOptions } from './table.ts';

/**
 * A state as one text for `nft -f -` in a kernel without the table: the table, the chains of lists, the elements in half a, set by set and
 * sorted.
 */
export function printNft(state: NftState): string {
  return `${printNftTable(tableOptions(state.settings))}${printFrontends(state)}`;
}

/** The part of `printNft` after the table. */
export function printFrontends({ settings, frontends }: NftState): string {
  const chains = new Set<string>();
  const elements: TableElement[] = [...settingsElements(settings)];
  for (const [key, lines] of frontends) {
    const frontend = readFrontend(key, lines);
    for (const chain of chainsOf(frontend, 'a')) chains.add(chain);
    for (const part of partsOf(frontendElements(frontend, 'a'))) for (const one of part) elements.push(one);
  }
  const commands = [...chains].toSorted(compareText).flatMap(listChain);
  return [...commands.map((command) => `${command}\n`), printElements('add', elements)].join('');
}

const partsOf = ({ serving, lists, shared }: FrontendElements): readonly (readonly TableElement[])[] => [
  serving,
  lists,
  shared,
];

/**
 * Elements as commands, set by set in the order of their names, each element once, sorted.
 * @param verb `delete` compares keys only, so the text has no values then
 */
export function printElements(verb: 'add' | 'delete', elements: readonly TableElement[]): string {
  const sets = Map.groupBy(elements, ({ set }) => set);
  const commands: string[] = [];
  for (const name of [...sets.keys()].toSorted(compareText)) {
    const texts = (sets.get(name) ?? []).map(({ key, value }) =>
      verb === 'delete' || value === '' ? key : `${key} : ${value}`,
    );
    const sorted = [...new Set(texts)].toSorted(compareText);
    for (let at = 0; at < sorted.length; at += nftLimits.elementsPerCommandMax) {
      const some = sorted.slice(at, at + nftLimits.elementsPerCommandMax);
      commands.push(`${verb} element ${nftTableName} ${name} { ${some.join(', ')} }\n`);
    }
  }
  return commands.join('');
}
