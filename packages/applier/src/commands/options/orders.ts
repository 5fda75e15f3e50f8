/** What `sluiced top` may show first. */
export const orders = ['connections', 'rate', 'imbalance', 'name'] as const;
export type Order = (typeof orders)[number];
