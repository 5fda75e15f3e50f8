import { countNames, foreignProxyChains } from '../plan/ownership.ts';
import type { Ports } from '../../ports/ports.ts';
import type { Refusal } from '../../ports/refusal.ts';
import { familiesOf } from '../../ports/node-state.ts';
import { hasOwnGeneration, type StartState } from './start-state.ts';

/**
 * Refuses a take-over without the certificate that the node requires: the first change of a node on which Service rules stand, of kube-proxy
 * in any mode or of another Sluice. A node that has a generation of its own, or no Service rules, takes over nothing. Generation 0 is none of
 * its own: it is active after a first release that was rolled back, and after a rollback to it.
 *
 * Rules that another program has flushed still count where they are known to have stood, or a kube-proxy runs that puts them back: else a
 * flush would open the gate. A node of which nothing is known is as after a boot, and takes over nothing.
 * @param version of the node's rules in the bundle
 * @param isKnown asked on a first change alone, as it reads every process: a kube-proxy runs, or this process has seen rules of another program and confirmed no release since
 */
export async function refuseTakeOver(
  version: string,
  { from, observed }: Pick<StartState, 'from' | 'observed'>,
  { journal, kernel, parity }: Pick<Ports, 'journal' | 'kernel' | 'parity'>,
  isKnown: () => boolean,
): Promise<Refusal | undefined> {
  if (!parity || hasOwnGeneration(journal.active)) return undefined;
  if (isKnown()) return parity.refuse(version);
  const traces = await kernel.proxyTraces();
  const tables = observed ?? (await kernel.observe(familiesOf(from.state)));
  const isBare = !traces.ipvs && !traces.nftables && countNames(foreignProxyChains(tables, {})) === 0;
  return !isBare || (await parity.servesElsewhere()) ? parity.refuse(version) : undefined;
}
