import { plural } from '@sluice/netfilter';
import type { Connections } from '../ipvs/drain.ts';
import { kubeProxyState } from '../ipvs/kube-proxy-state.ts';
import { ipvsSteps, planIpvs } from '../ipvs/plan.ts';
import { emptyIpvs, type NodeIpvs, ownedBy } from '../ipvs/values.ts';
import { flowChange } from '../plan/flows.ts';
import type { NodeState } from '../ports/node-state.ts';
import type { Ports } from '../ports/ports.ts';

/** What the end of mode ipvs cost: packets that IPVS forwards belong to connections that began before Sluice's rules came first. */
export interface IpvsWindow {
  /** How long the removal of addresses, virtual servers and sets took, in milliseconds. */
  readonly removedInMs: number;
  /** How long it was waited for connections to end, in milliseconds. */
  readonly waitedMs: number;
  /** Established connections that IPVS still forwarded then: they ended. */
  readonly ended: number;
}

interface IpvsParts {
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
export async function announceWindow({ kernel, say, waitMs }: IpvsParts): Promise<void> {
  const standing = await proxyIpvs(kernel);
  if (!standing) return;
  const count = await countConnections(standing, kernel);
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
export async function removeProxyIpvs(active: NodeState, parts: IpvsParts): Promise<IpvsWindow | undefined> {
  const { kernel, clock, say } = parts;
  const { ipvs } = kernel;
  const left = await proxyIpvs(kernel);
  if (!ipvs || !left) return undefined;
  const { waitedMs, count } = await untilIdle(left, parts);
  if (count > 0) say(`ends ${plural(count, 'established connection')} that IPVS still forwards`);
  const start = clock.bootMs();
  const steps = planIpvs(await ipvs.observe(), emptyIpvs, ownedBy(left), [], {
    now: clock.now(),
    drainMs: 0,
    excludeCIDRs: [],
  });
  for (const step of ipvsSteps(steps)) await ipvs.apply(step);
  const removedInMs = Math.round(clock.bootMs() - start);
  // A client of UDP that keeps its port would go on to an address that is no longer there: its next packet meets Sluice's rules instead.
  await kernel.forgetFlows(flowChange({ families: {}, sysctls: new Map(), ipvs: left }, active).old);
  return { removedInMs, waitedMs, ended: count };
}

/**
 * Waits until IPVS forwards no established connection of these virtual servers. Others lose nothing: a client of UDP is served by Sluice with
 * its next packet, and IPVS remembers an ended connection of TCP for two minutes.
 * @returns how many there still are
 */
async function untilIdle(
  left: NodeIpvs,
  { kernel, clock, say, waitMs }: IpvsParts,
): Promise<{ readonly waitedMs: number; readonly count: number }> {
  const start = clock.bootMs();
  for (let isFirst = true; ; isFirst = false) {
    const count = await countConnections(left, kernel);
    const waitedMs = Math.round(clock.bootMs() - start);
    if (count === 0 || waitedMs >= waitMs) return { waitedMs, count };
    if (isFirst)
      say(
        `waits up to ${Math.round(waitMs / 1000)} s for the end of ${plural(count, 'established connection')} that IPVS forwards`,
      );
    await clock.sleep(idlePauseMs);
  }
}

/** How many established connections IPVS forwards to these virtual servers. */
async function countConnections(
  { virtualServers }: NodeIpvs,
  { ipvs }: Pick<Ports['kernel'], 'ipvs'>,
): Promise<number> {
  const connections: Connections = (await ipvs?.connections('established')) ?? new Map();
  const counts = [...virtualServers.keys()].flatMap((key) => [...(connections.get(key)?.values() ?? [])]);
  return counts.reduce((sum, one) => sum + one, 0);
}

/** Between two counts. */
const idlePauseMs = 1_000;
