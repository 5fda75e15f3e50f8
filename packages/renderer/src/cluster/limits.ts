/** All limits of requests to an API server. Beyond them is a problem, never a hanging command. */
export const clusterLimits = {
  /** Objects in one page, like in kubectl. */
  pageObjects: 500,
  /** ConfigMaps in one page: each has up to 1 MiB, and a response `answerBytesMax`. */
  pageConfigMaps: 20,
  /** One response; 500 EndpointSlices of 100 endpoints each are about 10 MB. */
  answerBytesMax: 64 * 1024 * 1024,
  /** All objects of one kind. */
  objectsMax: 500_000,
  /** From the request to the last byte of the response. */
  requestTimeoutMs: 30_000,
  /** Until there is a connection: Linux repeats a lost SYN after 1 s and 3 s. */
  connectTimeoutMs: 5_000,
  /** Until credentials are available: a plugin may ask the user to log in. */
  credentialTimeoutMs: 180_000,
  /** The first attempt and its retries. */
  attemptsMax: 5,
  /** Doubles with each retry, up to `backoffMaxMs`; each pause is a random part of it, at least half. */
  backoffMs: 250,
  backoffMaxMs: 4_000,
  /** How often a list may restart after 410 Gone. */
  restartsMax: 3,
} as const;

/** All limits of watching a cluster. */
export const watchLimits = {
  requestTimeoutMs: clusterLimits.requestTimeoutMs,
  answerBytesMax: clusterLimits.answerBytesMax,
  /** There is no user to log in, and the kubelet's grace period is half a minute. */
  credentialTimeoutMs: 15_000,
  backoffMs: 250,
  backoffMaxMs: 30_000,
  /** More than the time of two bookmarks. */
  silenceMs: 150_000,
  watchSeconds: 300,
  /** etcd limits objects to 1.5 MiB. */
  lineBytesMax: 4 * 1024 * 1024,
} as const;

/** The defaults of client-go's leader election. */
export const leaseLimits = {
  /** After this time without a renewal others may take the Lease. */
  durationMs: 15_000,
  /** A leader that could not renew for this time stops, before another may take over. */
  renewWithinMs: 10_000,
  retryMs: 2_000,
} as const;
