/** The files that a release adds to a bundle. README.md, "Releases". */
export const releaseFile = 'release.yaml';
export const sumsFile = 'SHA256SUMS';
/** The namespace of `PROTOCOL.sshsig`: signatures for Git commits are not valid for releases. */
export const releaseNamespace = 'sluice-release' as const satisfies SignatureNamespace;

/** For endpoint updates; a key of this namespace can sign nothing else. README.md, "Updates of endpoints". */
export const endpointsNamespace = 'sluice-endpoints' as const satisfies SignatureNamespace;
/** For `waves-open.yaml`: keys that open waves need not be keys that sign releases. */
export const waveNamespace = 'sluice-wave' as const satisfies SignatureNamespace;
/** For the receipts of nodes. */
export const receiptNamespace = 'sluice-receipt' as const satisfies SignatureNamespace;
/** For parity certificates: a key that may say that a bundle serves a node as before. */
export const parityNamespace = 'sluice-parity' as const satisfies SignatureNamespace;
/** The ordered waves of nodes; covered by `SHA256SUMS`. */
export const wavesFile = 'waves.yaml';
/** The number of open waves. It changes during the rollout of a release, so no digest covers it. */
export const openingFile = 'waves-open.yaml';
export const openingSignatureFile = `${openingFile}.sig`;

/** The namespaces of signatures: a signature is valid for one purpose only. */
export type SignatureNamespace =
  | 'sluice-release'
  | 'sluice-endpoints'
  | 'sluice-wave'
  | 'sluice-receipt'
  | 'sluice-parity';

const signatureForm = /^SHA256SUMS\.(?:[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?\.)?sig$/;

/** The file of a signature. @param label a DNS label per signer, for several signatures */
export function signatureFile(label?: string): string {
  return label === undefined ? `${sumsFile}.sig` : `${sumsFile}.${label}.sig`;
}

/** True for `SHA256SUMS.sig` and `SHA256SUMS.NAME.sig`, the signatures over the digests of a release. */
export function isSignatureFile(path: string): boolean {
  return signatureForm.test(path);
}

/** True for `waves-open.yaml` and its signature, which change during a rollout while the release does not. */
export function isOpeningFile(path: string): boolean {
  return path === openingFile || path === openingSignatureFile;
}

/** True for files of a release that `SHA256SUMS` covers, besides those of the bundle. */
export function isSealedFile(path: string): boolean {
  return path === releaseFile || path === wavesFile;
}

/** True for files that only a release has. */
export function isReleaseFile(path: string): boolean {
  return isSealedFile(path) || path === sumsFile || isSignatureFile(path) || isOpeningFile(path);
}

/** README.md, "Releases". */
export const releaseLimits = {
  serialMax: 999_999_999_999,
  /** A node accepts no serial further ahead: one mistake, or one stolen key, must not use up all serials. */
  serialStepMax: 1_000_000,
  signatureBytesMax: 16 * 1024,
  /** The highest threshold. */
  signaturesMax: 16,
  /** Signatures by keys of `allowed_signers` that are verified, each by one process of `ssh-keygen`. */
  signatureChecksMax: 64,
  /** Signature files that are read. A public registry may have files by unknown keys; these are ignored and must not block a release. */
  signatureFilesMax: 1024,
  /** Of `allowed_signers`. */
  signersBytesMax: 256 * 1024,
  /** Of `allowed_receipts`, which has a line of some 150 bytes for each node. */
  receiptSignersBytesMax: 8 * 1024 * 1024,
  wavesMax: 64,
  /** How often the waves of one release may be closed again. */
  closingsMax: 999,
} as const;

/** The limits of a bundle. README.md, "Limits". */
export const bundleLimits = {
  fileBytesMax: 8 * 1024 * 1024,
  /** With its guard. */
  lineBytesMax: 64 * 1024,
  filesMax: 200_000,
  treeBytesMax: 512 * 1024 * 1024,
} as const;
