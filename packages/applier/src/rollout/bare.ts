import { countNames, foreignProxyChains } from './own.ts';
import type { Ports } from './ports.ts';
import type { Observed } from './state.ts';

/** Whether a kernel holds no rules for Services of any program, as after a boot. @param observed its tables */
export async function isBare(observed: Observed, { kernel }: Pick<Ports, 'kernel'>): Promise<boolean> {
  if (countNames(foreignProxyChains(observed, {})) > 0) return false;
  const { ipvs, nftables } = await kernel.proxyTraces();
  return !ipvs && !nftables;
}
