import { type Mode, type Problem, refusal } from '@sluice/netfilter';

/** A data plane cannot go in front of a kube-proxy in some mode. */
export const notBeneath = (proxy: Mode, hint: string): Problem =>
  refusal(
    'NODE_CANNOT_ADOPT',
    `Cannot put the bundle in front of this kube-proxy, which runs in mode ${proxy}: packets could meet its rules first`,
    hint,
  );
