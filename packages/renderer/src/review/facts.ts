import { compareText, type Family, type TransportProtocol } from '@sluice/netfilter';
import type { RuleFile } from '@sluice/bundle';
import { type HeaderNote, type HeaderNotes, notesOf } from './header.ts';
import { portsOf } from './rules.ts';

/**
 * The facts of one Service in one family, over all nodes. They are read from the rules; the comment block above them gives only what
 * no rule contains: the type, the nodes and zones of endpoints, and the settings of a load balancer without address or endpoints.
 */
export interface ServiceFacts {
  /** `shop/web` */
  readonly service: string;
  readonly family: Family;
  /** `ClusterIP`, `NodePort` or `LoadBalancer`; absent when the comment block does not say. */
  readonly type?: string;
  /** By key. */
  readonly ports: readonly PortFacts[];
}

export interface PortFacts {
  /** `shop/web:http 80/TCP`: the port's name in rules, its number and protocol. */
  readonly key: string;
  readonly protocol: TransportProtocol;
  /** In byte order of text. */
  readonly addresses: readonly AddressFacts[];
  /** 0: none. */
  readonly nodePort: number;
  /** Endpoints that at least one node uses, by text. */
  readonly endpoints: readonly EndpointFacts[];
  readonly internalPolicy: Policy;
  readonly externalPolicy: Policy;
  /** Seconds; absent: no affinity. Several values where rules disagree. */
  readonly affinity?: readonly number[];
  /** Mode ipvs: the scheduler with its flags, `wrr` or `mh mh-port`. Several where virtual servers disagree. */
  readonly scheduler?: string;
  /** CIDRs that may use the load-balancer addresses; empty: all sources. */
  readonly sourceRanges: readonly string[];
  /** 0: none. */
  readonly healthCheckPort: number;
}

export interface AddressFacts {
  readonly kind: 'cluster' | 'external' | 'load-balancer';
  /** `10.96.0.10:80` */
  readonly text: string;
}

export interface EndpointFacts {
  /** `10.244.1.5:8080` */
  readonly text: string;
  readonly node?: string;
  readonly zone?: string;
  /** Mode ipvs: absent for 1. Several where virtual servers disagree. */
  readonly weight?: string;
}

export type Policy = 'Cluster' | 'Local';

/**
 * Reads the facts of a Service file.
 * @param service `shop/web`, from the file's path
 */
export function factsOf(service: string, family: Family, file: RuleFile): ServiceFacts {
  const notes = notesOf(file.header);
  const ports = portsOf(file, family).map(({ targets, ...port }): PortFacts => {
    const addresses = port.addresses.map(({ kind, text }) => ({
      kind: kind === 'unnamed' ? kindOf(text, notes) : kind,
      text,
    }));
    const isRestricting = targets.length > 0 && addresses.some(({ kind }) => kind === 'load-balancer');
    return {
      ...port,
      addresses,
      sourceRanges: isRestricting ? port.sourceRanges : notes.sourceRanges,
      internalPolicy: port.internalPolicy ?? notes.internalPolicy,
      externalPolicy: port.externalPolicy ?? notes.externalPolicy,
      endpoints: targets.toSorted(compareText).map((text) => endpointOf(text, notes.endpoints)),
    };
  });
  return { service, family, ...(notes.type === undefined ? {} : { type: notes.type }), ports };
}

/** The kind of an address outside of the cluster. */
function kindOf(text: string, { loadBalancerAddresses }: HeaderNotes): AddressFacts['kind'] {
  const host = text.slice(0, text.lastIndexOf(':')).replaceAll(/[[\]]/g, '');
  return loadBalancerAddresses.includes(host) ? 'load-balancer' : 'external';
}

function endpointOf(text: string, notes: readonly HeaderNote[]): EndpointFacts {
  const note = notes.find((one) => one.text === text);
  return {
    text,
    ...(note?.node === undefined ? {} : { node: note.node }),
    ...(note?.zone === undefined ? {} : { zone: note.zone }),
  };
}
