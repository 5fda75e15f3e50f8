/** What `sluiced top` may show first. */
export const orders = ['connections', 'rate', 'name'] as const;
export type Order = (typeof orders)[number];
