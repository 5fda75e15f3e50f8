/** Every bound on a conversation with an API server. Beyond one of them stands a problem, never a command that hangs. */
export const clusterLimits = {
  /** Objects in one page. The API server itself answers in pieces of 500 to kubectl. */
  pageObjects: 500,
  /** One answer; 500 EndpointSlices of 100 endpoints each are about 10 MB. */
  answerBytesMax: 64 * 1024 * 1024,
  /** All objects of one kind. */
  objectsMax: 500_000,
  /** From the request to the last byte of its answer. */
  requestTimeoutMs: 30_000,
  /** Until credentials are there: a person may have to log in on a page that a plugin opened. */
  credentialTimeoutMs: 180_000,
  /** The first try and its repetitions. */
  attemptsMax: 5,
  /** Doubles with each repetition, up to `backoffMaxMs`; each pause is a random part of it, at least half. */
  backoffMs: 250,
  backoffMaxMs: 4_000,
  /** How often a list may begin anew because the server forgot the page it was at. */
  restartsMax: 3,
} as const;

/** Every bound on following a cluster. */
export const watchLimits = {
  requestTimeoutMs: clusterLimits.requestTimeoutMs,
  answerBytesMax: clusterLimits.answerBytesMax,
  /** Nobody logs in here, and a kubelet gives half a minute to end. */
  credentialTimeoutMs: 15_000,
  backoffMs: 250,
  backoffMaxMs: 30_000,
  /** More than two bookmarks' time. */
  silenceMs: 150_000,
  watchSeconds: 300,
  /** etcd takes no object beyond 1.5 MiB. */
  lineBytesMax: 4 * 1024 * 1024,
} as const;

/** As client-go's leader election has them by default. */
export const leaseLimits = {
  /** So long a holder who is not heard of keeps the Lease. */
  durationMs: 15_000,
  /** A holder who could not renew for so long stops: before anybody else may begin. */
  renewWithinMs: 10_000,
  retryMs: 2_000,
} as const;
