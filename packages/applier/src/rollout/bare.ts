import { countNames, strangers } from './own.ts';
import type { Ports } from './ports.ts';
import type { Observed } from './state.ts';

/** Whether a kernel holds no rules for Services, of whomever, as after a boot. @param observed what its tables hold */
export async function isBare(observed: Observed, { kernel }: Pick<Ports, 'kernel'>): Promise<boolean> {
  if (countNames(strangers(observed, {})) > 0) return false;
  const { ipvs, nftables } = await kernel.proxyTraces();
  return !ipvs && !nftables;
}
