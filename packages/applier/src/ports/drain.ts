import type { Ineligibility } from '@sluice/bundle';

/** A node that asks for no new connections: its ports for load balancers answer 503. Rules and connections stay. */
export interface DrainState {
  /** RFC 3339. */
  readonly since: string;
  /** When it ends by itself, RFC 3339; null: `sluiced undrain` or a boot ends it. */
  readonly until: string | null;
  readonly because: 'operator' | 'shutdown';
  /** How many clients of these ports have not been told often enough to send elsewhere. */
  readonly untold: number;
}

/** What load balancers are to be told. */
export interface DrainView {
  readonly now: DrainState | undefined;
  /** Why the cluster wants no new connections at this node. */
  readonly ineligible?: Ineligibility | undefined;
  /** A client of a port for load balancers is answered. */
  answers(address: string): void;
}
