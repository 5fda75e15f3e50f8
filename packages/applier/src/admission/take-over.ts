import { countNames, foreignProxyChains } from '../plan/ownership.ts';
import type { Ports } from '../ports/ports.ts';
import type { Refusal } from '../ports/refusal.ts';
import { familiesOf } from '../ports/node-state.ts';
import { hasOwnGeneration, type StartState } from './start-state.ts';

/**
 * Refuses a take-over without the certificate that the node requires: the first change of a node on which Service rules stand, of kube-proxy
 * in any mode or of another Sluice. A node that has a generation of its own, or no Service rules, takes over nothing. Generation 0 is none of
 * its own: it is active after a first release that was rolled back, and after a rollback to it.
 * @param version of the node's rules in the bundle
 */
export async function refuseTakeOver(
  version: string,
  { from, observed }: Pick<StartState, 'from' | 'observed'>,
  { journal, kernel, parity }: Pick<Ports, 'journal' | 'kernel' | 'parity'>,
): Promise<Refusal | undefined> {
  if (!parity || hasOwnGeneration(journal.active)) return undefined;
  const traces = await kernel.proxyTraces();
  const tables = observed ?? (await kernel.observe(familiesOf(from.state)));
  const isBare = !traces.ipvs && !traces.nftables && countNames(foreignProxyChains(tables, {})) === 0;
  return !isBare || (await parity.standsElsewhere()) ? parity.refuse(version) : undefined;
}
