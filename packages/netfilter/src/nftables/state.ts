/**
 * What a node runs in mode nftables, without slots, halves and chains: these follow from it and from what the kernel holds already.
 *
 * Everything is text, so that states are stored and compared like the chains of a table.
 */
export interface NftState {
  /** `table 4 address`, `table 4 interface cali*`, with ` masquerade-all`, ` tcp-reset`, ` clients 65536`, ` localhost-served`, ` localhost-listener`; then `pods 10.244.0.0/16`, `keep …`, `node …`, `cidr …`, `health 32090`. */
  readonly settings: readonly string[];
  /** By key: `10.96.0.10 . tcp . 80`, of a node port `0.0.0.0 . tcp . 30080`. `readFrontend` reads the lines. */
  readonly frontends: ReadonlyMap<string, readonly string[]>;
}

export const emptyNft: NftState = { settings: [], frontends: new Map() };
