/** A number with its noun: `1 node`, `2 nodes`. @param what in the singular; its plural ends in s */
export const plural = (count: number, what: string): string => `${count} ${what}${count === 1 ? '' : 's'}`;
