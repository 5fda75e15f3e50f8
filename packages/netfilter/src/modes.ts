import type { Mode, ModeFacts } from './rules/mode-facts.ts';
import { nftablesFacts } from './nftables/mode.ts';
import { iptablesFacts } from './rules/mode.ts';
import { ipvsFacts } from './virtual/mode.ts';

/** The modes, each described in its own folder: a further mode is a further entry. */
export const modeFacts = {
  iptables: iptablesFacts,
  ipvs: ipvsFacts,
  nftables: nftablesFacts,
} as const satisfies Record<Mode, ModeFacts>;

/** The names of all modes, in the order of help texts. */
export const modes = Object.keys(modeFacts) as readonly Mode[];
