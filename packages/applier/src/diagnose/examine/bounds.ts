/** Bounds of what `sluiced doctor` reads, so that it ends on any node. */
export const bounds = {
  /** Addresses of connections that nothing translated; a scan has many, and one of each frontend is enough. */
  untranslated: 10_000,
  /** One tool, and its output. Twice the time of a whole examination: on a busy node a late answer is better than one without a part. */
  toolMs: 20_000,
  toolBytes: 16 * 1024 * 1024,
  /** Rules of one foreign chain; a chain of a CNI plugin has a few hundred. */
  rulesPerChain: 5_000,
  /** Rules and chains of one rule store and family, besides those of single Services: 20 MB. */
  rules: 100_000,
  nftTables: 32,
  /** Chains that are listed one by one, of a table that iptables uses, too. */
  nftChains: 64,
  /** Addresses whose routes are asked for. */
  routes: 48,
  /** Lines of `conntrack -L` of all protocols. */
  connections: 1_000_000,
  interfaces: 1_000,
  modules: 32,
  /** `--live`: connections to endpoints, each at most this long. */
  livePlaces: 16,
  liveMs: 1_000,
  /** How long the table may live that traces packets of the doctor. */
  tableSeconds: 10,
  /** How long two processes of nft take to start. */
  startMs: 400,
  traceLines: 200,
  /** Records of the kernel's log, whose size is 256 KiB to 2 MiB. */
  logRecords: 50_000,
} as const;
