/** Every bound of the fetch process, with its unit. Those of requests are in `packages/transport`. */
export const fetchLimits = {
  /** Pauses of the loop vary by this share around the interval, by the name of the node: not all nodes ask at once. */
  jitterShare: 0.1,
  /** The longest pause after failures, unless the interval is longer. */
  pauseMsMax: 10 * 60_000,
  /** The least time between two attempts that events ask for; it doubles with each that finds nothing, up to the other one. */
  eventPauseMs: 100,
  eventPauseMsMax: 60_000,
  /** The pause after the first failure, where events are followed: servers change roles within seconds. */
  eventRetryMs: 1_000,
  /** How often the loop looks for an operator's request. */
  requestPollMs: 500,
  requestBytesMax: 64,
  /** `status.json`, `fetched.json`. */
  recordBytesMax: 64 * 1024,
  messageCharactersMax: 1_000,
  /** A password, a token, certificates of authorities. */
  secretBytesMax: 64 * 1024,
  caBytesMax: 1024 * 1024,
  helperTimeoutMs: 30_000,
  /** Each fetch leaves a pack; the repository is made anew when it has more of them, or is this many times larger than a release may be. */
  gitPacksMax: 64,
  gitSizeFactor: 4,
  /** Output of git on its standard error. */
  gitErrorBytesMax: 64 * 1024,
} as const;
