/** All limits of responses and times of a server, with units. */
export const registryLimits = {
  /** OCI distribution-spec 1.1, "Pushing Manifests": registries should accept 4 MiB. */
  manifestBytesMax: 4 * 1024 * 1024,
  tokenBytesMax: 64 * 1024,
  /** Error responses, for any request. */
  refusalBytesMax: 64 * 1024,
  redirectsMax: 5,
  attemptsMax: 3,
  /** An attempt that gets so much of a body does not count. */
  progressBytes: 64 * 1024,
  backoffMs: 500,
  /** Time without data. */
  idleTimeoutMs: 30_000,
  /** One request with its body. */
  transferTimeoutMs: 15 * 60_000,
  /** From the end of a request to the headers of the response. */
  answerTimeoutMs: 60_000,
  /** The least average rate of a response, once it has taken `slowAfterMs`: a quarter of a line of 32 kbit/s. */
  bytesPerSecondMin: 1024,
  slowAfterMs: 30_000,
  /** Pages of the list of referrers. */
  pagesMax: 16,
  /** Signatures and openings to fetch; other referrers are not counted. */
  referrersMax: 256,
  layersMax: 256,
  dockerConfigBytesMax: 1024 * 1024,
  helperTimeoutMs: 30_000,
  helperOutputBytesMax: 64 * 1024,
} as const;
