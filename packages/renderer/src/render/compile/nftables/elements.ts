import type { Guard } from '@sluice/bundle';
import { type Family, familySuffix, nftTableName, ruleLimits } from '@sluice/netfilter';
import { type GuardedLine, lineWhere } from '../lines.ts';

/** Adds elements to a set or map, by its name without the digit of the family: as few lines as the length of a line permits. */
export type AddElements = (set: string, elements: readonly string[], guard?: Guard) => readonly GuardedLine[];

export function addingElements(family: Family): AddElements {
  return (set, elements, guard) => {
    const start = `add element ${nftTableName} ${set}${familySuffix[family]} { `;
    return packed(elements, ruleLimits.ruleBytesMax - start.length - end.length).map((list) =>
      lineWhere(guard, `${start}${list}${end}`),
    );
  };
}

const end = ' }';
const separator = ', ';

/** The texts as lists, each of at most this many bytes; all texts are ASCII. */
function packed(texts: readonly string[], bytesMax: number): readonly string[] {
  const lists: string[] = [];
  for (const text of texts) {
    const last = lists.at(-1);
    if (last !== undefined && last.length + separator.length + text.length <= bytesMax)
      lists[lists.length - 1] = `${last}${separator}${text}`;
    else lists.push(text);
  }
  return lists;
}
