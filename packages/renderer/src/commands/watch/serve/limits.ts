/** Every bound of the server of `sluice watch --serve`, with its unit. */
export const serveLimits = {
  /** Followers have one connection for events, and up to four while they fetch. */
  connectionsMax: 4096,
  /** Requests of one connection that have no whole answer. Clients of Sluice have one. */
  unansweredMax: 4,
  headerBytesMax: 8 * 1024,
  /** A handshake of TLS, and the headers of a request. */
  headersTimeoutMs: 10_000,
  keepAliveMs: 15_000,
  /** One answer other than events, to its last byte. */
  transferTimeoutMs: 5 * 60_000,
  /** A follower that has taken nothing for so long is disconnected. */
  stalledMs: 30_000,
  /** When a client of a process that does not serve asks again. */
  retrySeconds: 2,
  /** Blobs in memory: of one, and of all. Those of a change have a few kB, the manifests of 10,000 Services 33 kB. */
  keptBlobBytesMax: 128 * 1024,
  keptBytesMax: 8 * 1024 * 1024,
  certificateBytesMax: 1024 * 1024,
} as const;
