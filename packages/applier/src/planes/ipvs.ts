import { KernelError } from '../ports/failure.ts';
import { printServers, printSets } from '@sluice/netfilter';
import { printAddresses } from '../ipvs/text.ts';
import { noTimeouts } from '../plan/virtual.ts';
import { notBeneath } from './beneath.ts';
import { inPlace, showsExactly } from './in-place.ts';
import type { NodePlane } from './plane.ts';

/** Mode ipvs: virtual servers and sets, and rules in kube-proxy's chains. */
export const ipvsPlane: NodePlane = {
  ...inPlace,
  name: 'ipvs',
  mode: 'ipvs',
  label: 'mode ipvs',
  hasServers: true,
  namesServices: false,
  shows: async (observed, state, ports) => ports.kernel.ipvs !== undefined && showsExactly(observed, state, ports),
  observeBeside: async ({ ipvs: expected }, { ipvs }) => {
    if (!expected) return {};
    if (!ipvs) throw new KernelError('ipvsadm, ipset and ip', 'one of them is not installed', 'missing');
    const { servers } = await ipvs.observe(noTimeouts);
    return { servers };
  },
  nativeFiles: ({ ipvs }) =>
    ipvs
      ? {
          'ipset.rules': printSets(ipvs),
          'ipvs.rules': printServers(ipvs),
          'addresses.batch': printAddresses(ipvs),
        }
      : {},
  // Two sets of virtual servers cannot stand side by side, and rules of any mode come before them.
  refusesBeneath: ([proxy]) =>
    notBeneath(proxy, 'Give the node a profile in mode iptables or nftables; mode ipvs can follow later'),
};
