import { compareText, type Family, serviceKeyOf } from '@sluice/netfilter';
import { type ServiceFrontend, frontendOf } from '../plan/frontend.ts';
import { type NodeState, tableOf } from '../ports/node-state.ts';

/** A frontend with its Service. */
export interface NamedFrontend extends ServiceFrontend {
  /** `shop/web:http`; in mode ipvs, where rules do not name Services, the frontend itself. */
  readonly service: string;
}

/** A rule that leads packets to the chains of a Service. */
const leadsToService = / -j (?:KUBE|SLU)-(?:SVC|SVL|EXT|FW)-\S+$/;
/** A rule that rejects packets of a Service without endpoints. */
const rejects = / -j REJECT(?: --reject-with \S+)?$/;

/**
 * The frontends of a state's rules or virtual servers, sorted by Service.
 * @param withEmpty also those of Services without endpoints
 */
export function frontendsOf(state: NodeState, family: Family, withEmpty = false): readonly NamedFrontend[] {
  const found = new Map<string, NamedFrontend>();
  const add = (one: NamedFrontend): void => {
    const key = `${one.protocol} ${one.address ?? '*'} ${one.port}`;
    if (!found.has(key)) found.set(key, one);
  };
  for (const { family: its, protocol, address, port } of state.ipvs?.virtualServers.values() ?? [])
    if (its === family) add({ protocol, address, port, service: `${address} port ${port}` });
  for (const table of ['nat', 'filter'] as const)
    for (const rules of tableOf(state, family, table).chains.values())
      for (const rule of rules) {
        const isWanted = leadsToService.test(rule) || (withEmpty && rejects.test(rule));
        const frontend = isWanted ? frontendOf(rule) : undefined;
        const service = frontend && serviceKeyOf(rule);
        if (frontend && service !== undefined) add({ ...frontend, address: addressIn(frontend), service });
      }
  return [...found.values()].toSorted((a, b) => compareText(a.service, b.service));
}

/** A node port in one network of the node is treated as one at any address. */
const addressIn = ({ address }: ServiceFrontend): string | undefined =>
  address?.includes('/') === true ? undefined : address;
