import type { Clock } from './clock.ts';
import type { DeclinedEndpoints, ReleasedNetworks } from './endpoints.ts';
import type { Journal } from './journal.ts';
import type { Kernel } from './kernel.ts';
import type { Operator } from './operator.ts';
import type { ParityGate } from './parity.ts';
import type { Rehearsal } from './rehearsal.ts';
import type { Probes, UpdateWatch } from './probes.ts';

/** Takes events of a transaction, for logs, metrics and alarms; has no influence on the outcome. */
export type Report = (event: string, details: Readonly<Record<string, unknown>>) => void;

export interface Ports {
  readonly kernel: Kernel;
  readonly rehearsal: Rehearsal;
  readonly journal: Journal;
  readonly probes: Probes;
  readonly declined: DeclinedEndpoints;
  /** The bounds of keys for endpoints, if signatures are required. */
  readonly networks?: ReleasedNetworks;
  /** Left out: endpoint updates are not watched. */
  readonly updates?: UpdateWatch;
  /** Left out: a take-over needs no certificate. */
  readonly parity?: ParityGate | undefined;
  readonly clock: Clock;
  readonly operator: Operator;
  readonly report: Report;
  /** How long a real server may drain. */
  readonly drainMs: number;
}
