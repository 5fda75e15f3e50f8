import type { Layout } from '../flows/layout.ts';

/** The amount that a node has to load. */
export interface NodeLoad {
  readonly rules: number;
  readonly chains: number;
  /** In mode nftables: those of all sets and maps. */
  readonly elements?: number;
  /** In mode ipvs. */
  readonly virtual?: {
    readonly servers: number;
    readonly realServers: number;
    /** Of all sets. */
    readonly entries: number;
    /** Of kube-ipvs0. */
    readonly addresses: number;
  };
}

/** The two kinds of iptables. */
const backends = ['nft', 'legacy'] as const;
export type IptablesBackend = (typeof backends)[number];

/**
 * The time of the first load, from measurements with iptables 1.8.9 on Linux 6.18: 230,000 rules in 60,000 chains (10,000 Services
 * with 5 endpoints). In layout `flat` iptables-legacy takes 2.5 s, which loads a table at once, and iptables-nft 8.8 s in sections of
 * 100 Services, as `sluiced` loads them; in layout `tree` 3.2 s and 4.0 s. All grow linearly with the rules; an empty load costs the
 * start of a process. A later change costs far less with nf_tables, and a full load with legacy.
 */
const loadModel = {
  startSeconds: 0.02,
  secondsPerRule: {
    flat: { nft: 8.8 / 230_000, legacy: 2.5 / 230_000 },
    tree: { nft: 4.0 / 230_000, legacy: 3.2 / 230_000 },
  },
  /** 100,000 entries of two sets with ipset 7.17 in 1.6 s; 10,000 addresses with `ip -batch` in 0.9 s. */
  secondsPerEntry: 1.6 / 100_000,
  secondsPerAddress: 0.9 / 10_000,
  /** Not measured on hardware: a line of `ipvsadm -R` is one request over netlink, as an address is. */
  secondsPerServer: 0.9 / 10_000,
  /** docs/performance.md: 10,000 Services of mode nftables with 5 endpoints in 0.74 s with nft 1.0.6, and 1,000 in 86 ms; 12 elements each. */
  secondsPerElement: 0.72 / 120_000,
} as const satisfies Readonly<Record<string, number | Record<Layout, Record<IptablesBackend, number>>>>;

/** The predicted time of the first load, to the millisecond. */
export function loadSeconds(backend: IptablesBackend, layout: Layout, { rules, virtual, elements }: NodeLoad): number {
  if (elements !== undefined)
    return Number((loadModel.startSeconds + elements * loadModel.secondsPerElement).toFixed(3));
  const { startSeconds, secondsPerRule, secondsPerAddress, secondsPerEntry, secondsPerServer } = loadModel;
  const ofRules = startSeconds + rules * secondsPerRule[layout][backend];
  const ofVirtual = virtual
    ? virtual.entries * secondsPerEntry +
      virtual.addresses * secondsPerAddress +
      (virtual.servers + virtual.realServers) * secondsPerServer
    : 0;
  return Number((ofRules + ofVirtual).toFixed(3));
}
