import type { Problem } from '@sluice/netfilter';

/** Why a bundle was refused. Nothing was touched. */
export interface Refusal {
  readonly problems: readonly Problem[];
  /** The bundle could be served, and a limit of this node delays it. */
  readonly isWaiting?: true;
}
