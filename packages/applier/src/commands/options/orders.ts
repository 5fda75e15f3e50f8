/** What `sluiced top` may show first. */
export const orders = ['connections', 'rate', 'live', 'bytes', 'imbalance', 'name'] as const;
export type Order = (typeof orders)[number];
