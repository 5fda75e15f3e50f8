import type { ProbeResult } from '../rollout/ports.ts';

/** What one try of a probe saw. */
export type Seen = Omit<ProbeResult, 'name'>;

/** `10.96.0.10:53` or `[fd00::10]:53`, as the config has checked it, in parts. */
export function hostAndPort(address: string): { readonly host: string; readonly port: number } {
  const colon = address.lastIndexOf(':');
  return { host: address.slice(0, colon).replace(/^\[(.*)\]$/, '$1'), port: Number(address.slice(colon + 1)) };
}
