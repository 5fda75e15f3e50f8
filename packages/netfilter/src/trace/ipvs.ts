import { parseAddress } from '../rules/address.ts';
import { printEndpoint } from '../rules/rule.ts';
import { type RealServer, type Scheduler, type VirtualServer, virtualKey } from '../virtual/values.ts';
import type { TraceFlow } from '../packet/flow.ts';
import type { Packet, RuleHit } from '../packet/packet.ts';
import type { World } from './world.ts';

/** Schedulers that give each real server its share by weight; the others give equal shares to all with a weight above 0. */
const byWeight: ReadonlySet<Scheduler> = new Set(['wrr', 'wlc', 'lblc', 'lblcr', 'sed', 'nq', 'sh', 'mh']);

/**
 * Applies the kernel's virtual servers to a flow: returns one flow per real server, with its share; the flow itself when no virtual server
 * has its destination.
 *
 * Shares are those over many clients: least-connection schedulers without connections, and hashing schedulers, which choose by the
 * client's address, over all addresses. Without a real server of weight above 0 the kernel answers port unreachable (`ip_vs_leave` in
 * `net/netfilter/ipvs/ip_vs_core.c`).
 */
export function schedule(flow: TraceFlow, packet: Packet, world: World): readonly TraceFlow[] {
  const { protocol, remembers } = packet;
  const key = virtualKey({ address: flow.destination.text, port: flow.port, protocol });
  const server = flow.translated ? undefined : world.ipvs?.virtualServers.get(key);
  if (!server) return [flow];
  const kept = server.persistence === undefined ? undefined : server.real.get(remembers ?? '');
  const open = kept ? [kept] : [...server.real.values()].filter(({ weight }) => weight > 0);
  if (open.length === 0) return [{ ...flow, verdict: 'reject', trail: { hit: hit(key, server), before: flow.trail } }];
  const shares = open.map(({ weight }) => (byWeight.has(server.scheduler) ? weight : 1));
  const sum = shares.reduce((all, share) => all + share, 0);
  return open.flatMap((real, index) => {
    const destination = parseAddress(real.address);
    if (!destination) return [];
    return [
      {
        ...flow,
        destination,
        port: real.port,
        translated: true,
        by: { address: server.address, protocol, port: server.port },
        probability: (flow.probability * (shares[index] ?? 0)) / sum,
        trail: { hit: hit(key, server, real), before: flow.trail },
      },
    ];
  });
}

function hit(key: string, server: VirtualServer, real?: RealServer): RuleHit {
  const rule = real ? `${printEndpoint(real.address, real.port)} weight ${real.weight}` : 'no real server';
  return { table: 'ipvs', chain: key, rule: `${server.scheduler}: ${rule}` };
}
