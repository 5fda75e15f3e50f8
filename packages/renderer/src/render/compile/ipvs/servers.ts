import type { Guard } from '@sluice/bundle';
import { printAttributes } from '@sluice/netfilter';
import type { Endpoint } from '../../model/model.ts';
import type { Variant } from '../../select/fleet.ts';
import { nodeGuards } from '../../select/guards.ts';
import { holdsOn } from './holds.ts';
import { type GuardedLine, lineWhere } from '../lines.ts';
import { type IpvsFrontend, frontendsOf, type IpvsPort } from './port.ts';

const options = { TCP: '-t', UDP: '-u', SCTP: '--sctp-service' } as const;

/** The virtual and real servers of a Service port: kube-proxy's `syncService` and `syncEndpoint`. */
export function serverLines(compiled: IpvsPort): readonly GuardedLine[] {
  return frontendsOf(compiled).flatMap((frontend) => {
    const name = `${options[compiled.port.protocol]} ${nameOf(compiled, frontend)}`;
    return [{ text: `-A ${name}${attributes(compiled)}` }, ...realLines(compiled, frontend, name)];
  });
}

/** `10.96.0.10:80`; brackets mark the lines of IPv6. */
function nameOf({ family }: IpvsPort, { address, port }: IpvsFrontend): string {
  return family === 'ipv6' ? `[${address}]:${port}` : `${address}:${port}`;
}

function attributes({ port, family, scheduler }: IpvsPort): string {
  const persistence = port.affinitySeconds;
  // kube-proxy sets flag 0x10 for mh (`IP_VS_SVC_F_SCHED2`): the hash includes the client's port.
  const flags = scheduler === 'mh' ? (['mh-port'] as const) : [];
  return printAttributes({ family, scheduler, flags, ...(persistence === undefined ? {} : { persistence }) });
}

function realLines(compiled: IpvsPort, frontend: IpvsFrontend, name: string): readonly GuardedLine[] {
  const real = ({ guard, endpoints }: Variant): readonly GuardedLine[] =>
    endpoints.map((endpoint) => lineWhere(guard, realText(compiled, name, endpoint)));
  const { local, cluster } = compiled.selection;
  if (!frontend.onlyLocal || local.length === 0) return cluster.flatMap(real);
  const key = `${nameOf(compiled, frontend)}/${compiled.port.protocol}`;
  return [...local, ...elsewhere(compiled, key)].flatMap(real);
}

function realText({ weightOf }: IpvsPort, name: string, endpoint: Endpoint): string {
  return `-a ${name} -r ${endpoint.text} -m -w ${weightOf(endpoint)}`;
}

/**
 * The endpoints of nodes without a local one under policy Local: the same as under policy Cluster (kubernetes/kubernetes#97081).
 * A line has one guard, so where the endpoints depend on the node, the nodes are listed by name.
 * @param key the virtual server in guards
 */
function elsewhere({ selection, fleet }: IpvsPort, key: string): readonly Variant[] {
  const [first, ...others] = selection.cluster;
  if (!first) return [];
  if (others.length === 0 && !first.guard)
    return [{ guard: { kind: 'local', negated: true, chain: key }, endpoints: first.endpoints }];
  const served = new Set(selection.local.flatMap(({ guard }) => namesOf(guard)));
  return selection.cluster.flatMap(({ guard, endpoints }) => {
    const holds = holdsOn(guard, fleet);
    const names = fleet.nodes.map(({ name }) => name).filter((name) => !served.has(name) && holds(name));
    if (names.length === 0) return [];
    return nodeGuards(names, fleet, true).map((named): Variant => ({ guard: named, endpoints }));
  });
}

function namesOf(guard: Guard | undefined): readonly string[] {
  return guard?.kind === 'node' ? guard.values : [];
}
