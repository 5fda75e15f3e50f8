import type { KubeProxyVersion } from '../../render/model/version.ts';
import { unfollowed, followed, withoutEffect } from './effect.ts';
import { externalIPsGate, flag, localhostGate } from './proxy.ts';
import type { Schema } from './schema.ts';

/** Gates that Kubernetes has removed, with the first version of kube-proxy that does not start with them. */
export const removedGates: Readonly<Record<string, KubeProxyVersion>> = {
  NFTablesProxyMode: '1.38',
  MultiCIDRServiceAllocator: '1.38',
  PreferSameTrafficDistribution: '1.38',
};

const gate = flag('A feature gate of kube-proxy.');
const windows = 'it affects only Windows';
const logs = "it affects only kube-proxy's log";
const served = "it affects only kube-proxy's HTTP endpoints";
const groups = 'the group contains no gate that changes rules';

/**
 * The feature gates of kube-proxy 1.37 and 1.38, in its own code and in the libraries of its options. test/parity compares the names with its
 * source.
 */
export const gates: Readonly<Record<string, Schema>> = {
  AllowServiceExternalIPs: followed(
    externalIPsGate,
    'with `false`, supported by kube-proxy since 1.36, there are no rules for external IPs',
  ),
  KubeProxyIPVS: unfollowed(gate, {
    usual: [true],
    modes: ['ipvs'],
    why: 'kube-proxy does not start in mode ipvs without it, and sluice still renders mode ipvs',
    hint: 'Set mode: iptables to stop using mode ipvs',
  }),
  PreferSameTrafficDistribution: unfollowed(gate, {
    usual: [true],
    why: 'hints for nodes are always used, like in kube-proxy since 1.35',
    hint: 'Remove it: kube-proxy no longer starts with it',
  }),
  MultiCIDRServiceAllocator: withoutEffect(gate, 'ServiceCIDRs of the input are always used'),
  KubeProxyNFTablesLocalhostNodePorts: followed(
    localhostGate,
    'by default on since kube-proxy 1.38; with `true`, mode nftables refuses node ports on loopback addresses, or serves them on 127.0.0.1 and `::1` where a CIDR of `nodePortAddresses` contains these',
  ),
  NFTablesNetlink: withoutEffect(gate, 'it changes only how kube-proxy writes rules of mode nftables'),
  WinDSR: withoutEffect(gate, windows),
  WinOverlay: withoutEffect(gate, windows),
  ContextualLogging: withoutEffect(gate, logs),
  LoggingAlphaOptions: withoutEffect(gate, logs),
  LoggingBetaOptions: withoutEffect(gate, logs),
  LoggingStableOptions: withoutEffect(gate, logs),
  NativeHistograms: withoutEffect(gate, served),
  ComponentFlagz: withoutEffect(gate, served),
  ComponentStatusz: withoutEffect(gate, served),
  AllAlpha: withoutEffect(gate, groups),
  AllBeta: withoutEffect(gate, groups),
};
