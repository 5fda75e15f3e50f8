import { plural } from '@sluice/netfilter';
import { kubeProxyState } from '../../ports/ipvs/kube-proxy-state.ts';
import { ipvsSteps, planIpvs } from '../../ports/ipvs/plan.ts';
import { emptyIpvs, type NodeIpvs, ownedBy } from '../../ports/ipvs/values.ts';
import { countEstablished, endIpvs, type IpvsWindow } from '../../ports/ipvs/window.ts';
import { messageOf } from '../../message.ts';
import { flowChange } from '../../apply/plan/flows.ts';
import type { NodeState } from '../../ports/node-state.ts';
import type { Ports } from '../../ports/ports.ts';

interface IpvsDependencies {
  readonly kernel: Pick<Ports['kernel'], 'ipvs' | 'forgetFlows' | 'proxyTraces'>;
  readonly clock: Pick<Ports['clock'], 'bootMs' | 'sleep' | 'now'>;
  readonly say: (what: string) => void;
  /** How long to wait for connections to end, at most. */
  readonly waitMs: number;
}

/** What a kube-proxy in mode ipvs has besides its rules; undefined without its interface, or without the tools of the mode. */
export async function proxyIpvs(kernel: Pick<Ports['kernel'], 'ipvs' | 'proxyTraces'>): Promise<NodeIpvs | undefined> {
  // ipvsadm fails where the kernel has no IPVS.
  if (!kernel.ipvs || !(await kernel.proxyTraces()).ipvs) return undefined;
  // The networks that kube-proxy leaves alone are in its configuration: of those, only what has its addresses or is in its sets is removed.
  return kubeProxyState(await kernel.ipvs.observe(), []);
}

/** Says before a move what its end will cost. Says nothing where kube-proxy has another mode. */
export async function announceWindow({ kernel, say, waitMs }: IpvsDependencies): Promise<void> {
  const standing = await proxyIpvs(kernel);
  const { ipvs } = kernel;
  if (!standing || !ipvs) return;
  const count = await countEstablished(standing.virtualServers.keys(), { ipvs });
  say(
    `mode ipvs: IPVS forwards ${plural(count, 'established connection')} now. They go on until kube-proxy has stopped, and ${Math.round(waitMs / 1000)} s longer at most`,
  );
}

/**
 * Removes what a kube-proxy in mode ipvs left, once its connections have ended or the time is over. Sluice's rules translate new connections
 * before the routing decision, so these meet neither its addresses nor its virtual servers, and there is no moment without rules for them.
 * @param active the state of Sluice's rules
 * @returns undefined where there is nothing of it
 * @throws KernelError
 */
export async function removeProxyIpvs(active: NodeState, parts: IpvsDependencies): Promise<IpvsWindow | undefined> {
  const { kernel, clock, say, waitMs } = parts;
  const { ipvs } = kernel;
  const left = await proxyIpvs(kernel);
  if (!ipvs || !left) return undefined;
  // A client of UDP that keeps its port would go on to an address that is no longer there: its next packet meets Sluice's rules instead.
  try {
    await kernel.forgetFlows(flowChange({ families: {}, sysctls: new Map(), ipvs: left }, active).old);
  } catch (error) {
    say(
      `connections of UDP that IPVS forwards were not deleted, so that a client that keeps its port may get no answer until it pauses: ${messageOf(error)}`,
    );
  }
  const connections = (count: number): string => plural(count, 'established connection');
  const remove = async (open: number | undefined): Promise<void> => {
    if (open === undefined) say('ends the connections that IPVS still forwards: they could not be counted');
    else if (open > 0) say(`ends ${connections(open)} that IPVS still forwards`);
    const options = { now: clock.now(), drainMs: 0, excludeCIDRs: [] };
    const steps = planIpvs(await ipvs.observe(), emptyIpvs, ownedBy(left), [], options);
    for (const step of ipvsSteps(steps)) await ipvs.apply(step);
  };
  const onWait = (open: number): void =>
    say(`waits up to ${Math.round(waitMs / 1000)} s for the end of ${connections(open)} that IPVS forwards`);
  return endIpvs({ servers: [...left.virtualServers.keys()], waitMs, remove, onWait }, { ipvs, clock });
}
