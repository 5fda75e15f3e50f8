import { compareText } from '@sluice/netfilter';

/** What identifies a set of endpoints: each as `address:port`, sorted. */
export const endpointsText = (endpoints: Iterable<string>): string => [...endpoints].toSorted(compareText).join(' ');
