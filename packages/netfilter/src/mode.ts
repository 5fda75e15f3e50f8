/** How a node forwards packets to endpoints. */
export type Mode = 'iptables' | 'ipvs' | 'nftables';
