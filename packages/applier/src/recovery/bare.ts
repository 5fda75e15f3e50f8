import { countNames, foreignProxyChains } from '../plan/ownership.ts';
import type { Ports } from '../ports/ports.ts';
import type { Observed } from '../ports/node-state.ts';

/** Whether a kernel holds no rules for Services of any program, as after a boot. @param observed its tables */
export async function isBare(observed: Observed, { kernel }: Pick<Ports, 'kernel'>): Promise<boolean> {
  if (countNames(foreignProxyChains(observed, {})) > 0) return false;
  const { ipvs, nftables } = await kernel.proxyTraces();
  return !ipvs && !nftables;
}
