import { unfollowed, followed, withoutEffect } from './effect.ts';
import { externalIPsGate, flag } from './proxy.ts';
import type { Schema } from './schema.ts';

const gate = flag('A feature gate of kube-proxy.');
const otherModes = 'it concerns mode nftables alone';
const windows = 'it concerns Windows alone';
const logs = "it concerns kube-proxy's log";
const served = 'it concerns what kube-proxy serves over HTTP';
const groups = 'no gate that changes rules of modes iptables and ipvs is in this group';

/**
 * The feature gates that kube-proxy 1.37 reads, in its own code and in the libraries it takes options from. test/parity compares
 * the names with its source.
 */
export const gates: Readonly<Record<string, Schema>> = {
  AllowServiceExternalIPs: followed(
    externalIPsGate,
    'with `false`, which kube-proxy knows since 1.36, no rule names an external IP',
  ),
  KubeProxyIPVS: unfollowed(gate, {
    usual: [true],
    modes: ['ipvs'],
    why: 'kube-proxy does not start in mode ipvs without it, and sluice renders mode ipvs all the same',
    hint: 'Set mode: iptables where mode ipvs is not to be used any more',
  }),
  PreferSameTrafficDistribution: unfollowed(gate, {
    usual: [true],
    why: 'hints for nodes are always followed, as by kube-proxy since 1.35',
    hint: 'Remove it: kube-proxy does not start with it any more',
  }),
  MultiCIDRServiceAllocator: withoutEffect(gate, 'no rule of modes iptables and ipvs is made from ServiceCIDRs'),
  KubeProxyNFTablesLocalhostNodePorts: withoutEffect(gate, otherModes),
  NFTablesNetlink: withoutEffect(gate, otherModes),
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
