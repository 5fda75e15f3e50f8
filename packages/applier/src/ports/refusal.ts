import type { Problem } from '@sluice/netfilter';

/** Why a bundle was refused. Nothing was touched. */
export interface Refusal {
  readonly problems: readonly Problem[];
}
