import type { Family, TableName } from '../rulefile.ts';
import type { Address } from '../rules/address.ts';
import type { IpvsState, VirtualServer } from '../virtual/values.ts';
import type { TransportProtocol } from '../rules/rule.ts';
import type { RuleHit } from './packet.ts';

/** A packet on one of its ways. */
export interface Flow {
  readonly source: Address;
  readonly destination: Address;
  readonly port: number;
  /** 32 bits, unsigned. */
  readonly mark: number;
  readonly translated: boolean;
  readonly masquerade: boolean;
  /** The virtual server that handed it on. */
  readonly by?: Pick<VirtualServer, 'address' | 'protocol' | 'port'>;
  /** How the walk through the current built-in chain ended; absent: it goes on. */
  readonly verdict?: 'accept' | 'reject' | 'drop';
  /** Some filter rule accepted it. */
  readonly accepted: boolean;
  readonly probability: number;
  readonly path: readonly RuleHit[];
}

export type HookName = 'PREROUTING' | 'INPUT' | 'FORWARD' | 'OUTPUT' | 'POSTROUTING';

/** Where in the kernel a flow is, and what is the same for all flows of a packet. */
export interface Hook {
  readonly table: TableName;
  readonly name: HookName;
  readonly family: Family;
  readonly protocol: TransportProtocol;
  /** `''` where the kernel has no incoming interface: OUTPUT and POSTROUTING. */
  readonly in: string;
  readonly remembers: string | undefined;
  /** Names of the switches that are on. */
  readonly switches: ReadonlySet<string>;
  readonly isLocal: (address: Address) => boolean;
  /** In mode ipvs: what rules ask. */
  readonly sets?: IpvsState['sets'] | undefined;
}
