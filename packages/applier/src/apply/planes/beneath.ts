import type { Mode, Problem } from '@sluice/netfilter';

/** A data plane cannot go in front of a kube-proxy in some mode. */
export const notBeneath = (proxy: Mode, hint: string): Problem => ({
  code: 'NODE_CANNOT_ADOPT',
  level: 'error',
  message: `Cannot put the bundle in front of this kube-proxy, which runs in mode ${proxy}: packets could meet its rules first`,
  hint,
});
