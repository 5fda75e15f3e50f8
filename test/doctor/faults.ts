import type { CauseCode } from '@sluice/netfilter';
import type { ServiceOptions } from './manifests.ts';
import type { DoctorNode } from './node.ts';
import { connectionFaults } from './faults-connections.ts';
import { networkFaults } from './faults-network.ts';
import { ruleFaults } from './faults-rules.ts';
import { sluicedFaults } from './faults-sluiced.ts';
import type { Plane } from './plan.ts';

/** One thing that goes wrong on a node whose Service works. */
export interface Fault {
  readonly name: string;
  readonly cause: CauseCode;
  readonly service?: ServiceOptions;
  /** The data planes that can have it; default: all. */
  readonly only?: (plane: Plane) => boolean;
  /** The family that can have it; default: both. */
  readonly family?: 'ipv4' | 'ipv6';
  /** Breaks the node. The Service is applied already, unless `before` is set. */
  make(node: DoctorNode): Promise<unknown>;
  /** What the doctor is asked; default: the Service. `undefined`: nothing. */
  asks?(node: DoctorNode): string | undefined;
  /** Further options of the doctor. */
  readonly args?: readonly string[];
  /** Left unapplied: `make` does what it needs. */
  readonly isUnapplied?: boolean;
}

/** Every row of the table. */
export const faults: readonly Fault[] = [...sluicedFaults, ...ruleFaults, ...networkFaults, ...connectionFaults];
