import type { Problem } from '@sluice/netfilter';

/** Why a bundle was refused. Nothing was touched. */
export interface Refusal {
  readonly problems: readonly Problem[];
  /** The bundle could be served, and a limit of this node delays it. */
  readonly isWaiting?: true;
  /** It takes away most Services, and is held for that: the frontends that it has without an endpoint. Those that it lacks are left out. */
  readonly emptied?: readonly string[];
}
