import type { VersionDifference } from './differences.ts';

/** A difference that rules do not reproduce, with the reason. */
interface OtherDifference extends VersionDifference {
  readonly why: string;
}

/** What the page of versions says of them: newest first, with the sources of `differences.ts`. */
export const otherDifferences: readonly OtherDifference[] = [
  {
    since: '1.38',
    now: 'Tracked connections of UDP to addresses of a deleted Service, or of a deleted port of one, are removed',
    before: 'They stay, and clients that keep sending go on to the former endpoint',
    why: 'No rule does it; `sluiced` removes them whatever the version',
  },
  {
    since: '1.38',
    now: 'ServiceCIDRs are always read: mode nftables drops packets to their addresses without a Service',
    before: 'The gate `MultiCIDRServiceAllocator` decides',
    why: 'ServiceCIDRs of the input are used with any version',
  },
  {
    since: '1.38',
    now: 'kube-proxy does not start with the gates `NFTablesProxyMode`, `MultiCIDRServiceAllocator` and `PreferSameTrafficDistribution`',
    before: 'It starts with their default values',
    why: 'They change no rule; a configuration that names one is a warning (`CONFIG_IGNORED`) in a profile of this version',
  },
  {
    since: '1.37',
    now: 'Tracked connections of UDP to addresses of a Service without a serving endpoint are removed (at its node ports they stay)',
    before:
      'They stay, and clients that keep sending go on to the former endpoint, or to where the packets went before the Service came',
    why: 'No rule does it; `sluiced` removes them whatever the version, at node ports, too',
  },
  {
    since: '1.37',
    now: '`nf_conntrack_max` is raised, and never lowered',
    before: 'It is set, also where the node has a higher one',
    why: 'A bundle names the value of a node; `conntrack.maxPerCore: 0` leaves it to the node',
  },
  {
    since: '1.37',
    now: 'kube-proxy exits when the addresses of its Node change, or when the Node is deleted, and starts again',
    before: 'It logs that, and goes on with the former addresses',
    why: 'Addresses of Nodes are in the bundle: the next render has the new ones, and a node without a bundle keeps its rules',
  },
  {
    since: '1.36',
    now: 'Of two endpoints with one address and port the one that is not terminating takes precedence',
    before: 'The one that is local to the node takes precedence, else either of them',
    why: 'The choice depended on the order of a Go map, so older versions have no defined behaviour',
  },
  {
    since: '1.36',
    now: 'External IPs have no rules where the feature gate `AllowServiceExternalIPs` is off',
    before: 'There is no such gate, and kube-proxy does not start with it',
    why: 'The setting of the profile applies to any version',
  },
  {
    since: '1.34',
    now: 'A source range `0.0.0.0/0` or `::/0` is ignored',
    before: 'It is a range like any other; in mode ipvs the kernel does not accept it in the set of ranges',
    why: 'Mode iptables admits the same packets either way; in mode ipvs older versions block every client that no other range admits, which `sluice parity` names (`VERSION_ZERO_RANGE`)',
  },
  {
    since: '1.33',
    now: 'Mode nftables: packets of the node itself are refused once they are translated, and once source ranges were asked for',
    before:
      'Before that: dropped at outer addresses that policy Local leaves without an endpoint there; rejected, not dropped, without endpoints where source ranges leave the node out',
    why: 'The mode was not the default then; `sluice parity` names such packets (`VERSION_EARLY_CHECKS`)',
  },
  {
    since: '1.31',
    now: 'Some rules count packets (`-m nfacct`)',
    before: 'They do not',
    why: 'Counters do not affect packets',
  },
  {
    since: '1.29',
    now: 'Mode iptables: where `nf_conntrack_tcp_be_liberal` is not 0, as with `conntrack.tcpBeLiberal`, no rule drops INVALID packets',
    before: 'The rule is always there',
    why: 'The node decides it, independent of the bundle; packets that a liberal kernel drops belong to live connections',
  },
  {
    since: '1.29',
    now: 'kube-proxy can write nftables rules',
    before: 'It cannot',
    why: 'The setting of the profile applies to any version',
  },
];
