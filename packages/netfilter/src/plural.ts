/** A number with its noun: `1 node`, `2 nodes`. @param what in the singular; its plural ends in s */
export const plural = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;

/** The first texts of a list, and the number of the others: `node-a, node-b and 3 more`. */
export const shortList = (texts: readonly string[], max = 5): string =>
  `${texts.slice(0, max).join(', ')}${texts.length > max ? ` and ${texts.length - max} more` : ''}`;
