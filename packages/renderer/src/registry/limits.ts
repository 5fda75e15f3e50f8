/** Every bound on what a registry may send and how long it may take, with its unit. */
export const registryLimits = {
  /** OCI distribution-spec 1.1, "Pushing Manifests": registries should take 4 MiB. */
  manifestBytesMax: 4 * 1024 * 1024,
  tokenBytesMax: 64 * 1024,
  /** What comes with a status that is none of success: words, whatever was asked for. */
  refusalBytesMax: 64 * 1024,
  redirectsMax: 5,
  attemptsMax: 3,
  backoffMs: 500,
  /** Without a byte. */
  idleTimeoutMs: 30_000,
  /** One request with all that it carries. */
  transferTimeoutMs: 15 * 60_000,
  /** Of the list of what refers to a release. */
  pagesMax: 16,
  /** Signatures and openings that are fetched; what else refers to a release is not counted. */
  referrersMax: 256,
  layersMax: 256,
  dockerConfigBytesMax: 1024 * 1024,
  helperTimeoutMs: 30_000,
  helperOutputBytesMax: 64 * 1024,
} as const;
