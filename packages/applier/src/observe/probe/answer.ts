import type { ProbeResult } from '../../ports/probes.ts';

/** The result of one try of a probe. */
export type ProbeAnswer = Omit<ProbeResult, 'name'>;

/** Splits `10.96.0.10:53` or `[fd00::10]:53`, which the config has checked. */
export function hostAndPort(address: string): { readonly host: string; readonly port: number } {
  const colon = address.lastIndexOf(':');
  return { host: address.slice(0, colon).replace(/^\[(.*)\]$/, '$1'), port: Number(address.slice(colon + 1)) };
}
