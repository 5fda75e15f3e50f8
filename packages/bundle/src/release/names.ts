/** What a release adds to a bundle. README.md, "Releases". */
export const releaseFile = 'release.yaml';
export const sumsFile = 'SHA256SUMS';
/** Of signatures, in the sense of `PROTOCOL.sshsig`: a signature for Git commits is none for releases. */
export const releaseNamespace = 'sluice-release' as const satisfies SignatureNamespace;

/** Of signatures over updates of endpoints: such a key can sign nothing else. README.md, "Updates of endpoints". */
export const endpointsNamespace = 'sluice-endpoints' as const satisfies SignatureNamespace;
/** Of the signature over `waves-open.yaml`: who may open waves need not be one who may sign releases. */
export const waveNamespace = 'sluice-wave' as const satisfies SignatureNamespace;
/** Of the signature of a node over what it says of itself. */
export const receiptNamespace = 'sluice-receipt' as const satisfies SignatureNamespace;
/** The ordered waves of nodes; covered by `SHA256SUMS`. */
export const wavesFile = 'waves.yaml';
/** How many of the waves are open: one line of it changes while a release goes out, so no digest covers it. */
export const openingFile = 'waves-open.yaml';
export const openingSignatureFile = `${openingFile}.sig`;

/** What can be signed here; the namespace keeps a signature for one from being one for another. */
export type SignatureNamespace = 'sluice-release' | 'sluice-endpoints' | 'sluice-wave' | 'sluice-receipt';

const signatureForm = /^SHA256SUMS\.(?:[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?\.)?sig$/;

/** The file of a signature; each signer of several has a label, a DNS label. */
export function signatureFile(label?: string): string {
  return label === undefined ? `${sumsFile}.sig` : `${sumsFile}.${label}.sig`;
}

export function isSignatureFile(path: string): boolean {
  return signatureForm.test(path);
}

/** True for how many waves are open, and for the signature over it: they change while the release stays what it is. */
export function isOpeningFile(path: string): boolean {
  return path === openingFile || path === openingSignatureFile;
}

/** True for what a release adds to the files of a bundle and `SHA256SUMS` covers. */
export function isSealedFile(path: string): boolean {
  return path === releaseFile || path === wavesFile;
}

/** True for what only a release has. */
export function isReleaseFile(path: string): boolean {
  return isSealedFile(path) || path === sumsFile || isSignatureFile(path) || isOpeningFile(path);
}

/** README.md, "Releases". */
export const releaseLimits = {
  serialMax: 999_999_999_999,
  /** A node takes no serial that is further ahead: one slip, or one stolen key, must not use up all serials. */
  serialStepMax: 1_000_000,
  signatureBytesMax: 16 * 1024,
  /** No threshold is above it. */
  signaturesMax: 16,
  /** So many signatures by keys that `allowed_signers` names `ssh-keygen` is asked about, one process for each. */
  signatureChecksMax: 64,
  /** Of signature files: where a release is fetched from, strangers may add theirs, which count for nothing and must not be in its way. */
  signatureFilesMax: 1024,
  /** Of `allowed_signers`. */
  signersBytesMax: 256 * 1024,
  /** Of `allowed_receipts`, which has a line of some 150 bytes for each node. */
  receiptSignersBytesMax: 8 * 1024 * 1024,
  wavesMax: 64,
} as const;
