/** Bounds of what `sluiced doctor` reads, so that it ends within 10 s on any node. */
export const bounds = {
  /** One tool, and its output. */
  toolMs: 8_000,
  toolBytes: 16 * 1024 * 1024,
  /** Rules of one foreign chain; a chain of a CNI plugin has a few hundred. */
  rulesPerChain: 5_000,
  nftTables: 32,
  /** Addresses whose routes are asked for. */
  routes: 48,
  /** Lines of `conntrack -L` of all protocols. */
  connections: 1_000_000,
  interfaces: 1_000,
  /** `--live`: connections to endpoints, each at most this long. */
  livePlaces: 16,
  liveMs: 1_000,
  /** How long the table may live that traces packets of the doctor. */
  tableSeconds: 10,
  /** How long two processes of nft take to start. */
  startMs: 400,
  traceLines: 200,
} as const;
