import { inPlace, showsExactly } from './in-place.ts';
import type { NodePlane } from './plane.ts';

/**
 * Mode iptables in layout `flat`, with kube-proxy's names of chains. A release: filter allows what both programs need, nat changes, filter
 * narrows; the old program is gone then.
 */
export const flatPlane: NodePlane = {
  ...inPlace,
  name: 'flat',
  mode: 'iptables',
  label: 'layout flat',
  hasServers: false,
  namesServices: true,
  shows: showsExactly,
  observeBeside: async () => ({}),
  nativeFiles: () => ({}),
  refusesBeneath: () => ({
    code: 'NODE_CANNOT_ADOPT',
    level: 'error',
    message:
      "Cannot put the bundle in front of this kube-proxy: in layout flat its chains have the names of kube-proxy's",
    hint: 'Set `layout: tree` in sluiced.yaml',
  }),
};
