import type { Accepted } from '@sluice/bundle';
import type { SluicedConfig } from '../../config.ts';
import type { ProbationStatus } from '../../daemon/control/protocol.ts';
import type { Adoption } from '../../ports/adoption.ts';
import type { PartialRelease, QuarantinedService } from '../../ports/journal.ts';
import type { DamagedFile } from '../../state/damage.ts';
import type { StatusReport } from '../../observe/status/status.ts';
import type { KernelView } from './compare.ts';
import type { NewestRelease } from './newest.ts';

/** The daemon's status. A daemon of another version may leave fields out. */
export type DaemonStatus = Partial<StatusReport>;

/** The document of `status -o json`. */
export interface StatusSummary {
  readonly apiVersion: 'sluice.dev/v1alpha1';
  readonly kind: 'NodeStatus';
  readonly node: string;
  readonly generation: number | null;
  readonly version: string | null;
  /** The serial of the active generation's release; null without one. */
  readonly serial: number | null;
  /** The newest release, which may not be the active one; null on a node that never had one. */
  readonly newest: NewestRelease | null;
  /** The Services that the generation lacks of its release, and why; null when it lacks none. */
  readonly partial: PartialRelease | null;
  readonly backend: string | null;
  readonly signatures: 'required' | 'none';
  readonly rehearse: SluicedConfig['rehearse'];
  /** The release that was accepted last, where signatures are required. */
  readonly release: Accepted | null;
  readonly open: string | null;
  /** The move from kube-proxy; null where there was none. */
  readonly adoption: Adoption | null;
  /** The release on probation, with the token that `sluiced confirm --token` takes. */
  readonly probation: ProbationStatus | null;
  readonly held: string | null;
  readonly quarantined: Readonly<Record<string, string>>;
  readonly quarantinedServices: readonly QuarantinedService[];
  /** Files of the state directory that were found damaged within a day. */
  readonly damagedFiles: readonly DamagedFile[];
  /** Until when a newer release waits after failed ones; null when none does. */
  readonly waitsUntil: string | null;
  /** What happens by itself, the earliest first. */
  readonly next: readonly NextEvent[];
  /** Why a unit of systemd should run the daemon, which does not answer; null: none is enabled, or it answers. */
  readonly missing: string | null;
  /** When this was read, RFC 3339. */
  readonly at: string;
  readonly kernel: KernelView;
  readonly daemon: DaemonStatus | null;
}

/** What happens without an order. */
export interface NextEvent {
  readonly what: string;
  /** RFC 3339; null: when what it waits for happens. */
  readonly at: string | null;
}
