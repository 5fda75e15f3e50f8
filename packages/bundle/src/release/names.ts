/** What a release adds to a bundle. README.md, "Releases". */
export const releaseFile = 'release.yaml';
export const sumsFile = 'SHA256SUMS';
/** Of signatures, in the sense of `PROTOCOL.sshsig`: a signature for Git commits is none for releases. */
export const releaseNamespace = 'sluice-release';

const signatureForm = /^SHA256SUMS\.(?:[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?\.)?sig$/;

/** The file of a signature; each signer of several has a label, a DNS label. */
export function signatureFile(label?: string): string {
  return label === undefined ? `${sumsFile}.sig` : `${sumsFile}.${label}.sig`;
}

export function isSignatureFile(path: string): boolean {
  return signatureForm.test(path);
}

/** True for what only a release has. */
export function isReleaseFile(path: string): boolean {
  return path === releaseFile || path === sumsFile || isSignatureFile(path);
}

/** README.md, "Releases". */
export const releaseLimits = {
  serialMax: 999_999_999_999,
  /** A node takes no serial that is further ahead: one slip, or one stolen key, must not use up all serials. */
  serialStepMax: 1_000_000,
  signatureBytesMax: 16 * 1024,
  signaturesMax: 16,
  /** Of `allowed_signers`. */
  signersBytesMax: 256 * 1024,
} as const;
