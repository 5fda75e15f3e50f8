import {
  endpointsNamespace,
  isOpeningFile,
  isProblem,
  isSignatureFile,
  openingFile,
  openingSignatureFile,
  readOpening,
  readSignature,
  releaseLimits,
  releaseNamespace,
  signatureFile,
  waveNamespace,
} from '@sluice/bundle';
import { type OciDescriptor, mediaTypes, readManifest, titleKey } from '../registry/artifact.ts';
import { RegistryFailure, invalidContent } from '../http/failure.ts';
import type { VerifiedContent } from './verified.ts';

type AttachmentFiles = ReadonlyMap<string, string>;

interface Attachments {
  /** Name → text: all signatures, and one opening. */
  readonly files: AttachmentFiles;
  /** Why others were ignored, in words. */
  readonly passedOver: readonly string[];
}

interface OpeningFound {
  readonly referrer: string;
  readonly files: AttachmentFiles;
  readonly open: number;
  readonly closings: number;
  readonly isSigned: boolean;
}

/**
 * Fetches the signatures and the opening of a release. Anyone with write access to the repository can add some, so an invalid one is
 * ignored and does not hide the others.
 * @param digest of the manifest
 * @param release the digest of `SHA256SUMS`
 * @throws RegistryFailure when the registry fails for other reasons
 */
export async function pullAttachments(source: VerifiedContent, digest: string, release: string): Promise<Attachments> {
  const listed = await source.referrers(digest);
  const passedOver = [...listed.passedOver];
  const signatures = new Map<string, string>();
  const openings: OpeningFound[] = [];
  for (const referrer of listed.referrers) {
    try {
      const files = await attachment(source, referrer, digest);
      if (referrer.artifactType === mediaTypes.signature) addSignatures(signatures, files, referrer.digest);
      if (referrer.artifactType === mediaTypes.opening) openings.push(openingOf(referrer.digest, files, release));
    } catch (error) {
      if (!isBad(error)) throw error;
      passedOver.push(error.message);
    }
  }
  const opening = openings.reduce<OpeningFound | undefined>(better, undefined);
  const further = openings.filter((one) => opening?.isSigned === true && !one.isSigned && one.open > opening.open);
  for (const { referrer, open } of further) passedOver.push(`${referrer} opens ${open} waves without a signature`);
  return { files: new Map([...signatures, ...(opening?.files ?? [])]), passedOver };
}

/** Whether the referrer is invalid or missing; another failure is one of the registry and may be temporary. */
function isBad(error: unknown): error is RegistryFailure {
  if (!(error instanceof RegistryFailure) || error.problem.code !== 'REGISTRY_INVALID') return false;
  return error.status === undefined || error.status === 404;
}

/**
 * Prefers a signed opening, by any key, over an unsigned one, which nodes with signatures refuse; then one after more closings, which
 * replaces each one before; then the greater number.
 */
function better(a: OpeningFound | undefined, b: OpeningFound): OpeningFound {
  if (a === undefined) return b;
  if (a.isSigned !== b.isSigned) return a.isSigned ? a : b;
  if (a.closings !== b.closings) return a.closings > b.closings ? a : b;
  return b.open > a.open ? b : a;
}

function openingOf(referrer: string, files: AttachmentFiles, release: string): OpeningFound {
  const opening = readOpening(files.get(openingFile) ?? '');
  if (isProblem(opening)) throw invalidContent(referrer, opening.message);
  if (opening.release !== release) throw invalidContent(referrer, 'it is an opening of another release');
  const { open, closings = 0 } = opening;
  return { referrer, files, open, closings, isSigned: isSignature(files.get(openingSignatureFile) ?? '') };
}

/** Whether a text is a signature for openings, by any key. */
const isSignature = (text: string): boolean => typeof readSignature(text, waveNamespace) !== 'string';

/**
 * A repeated signature has the same file name, and registries keep both. Names do not matter for verification, so the second gets a name
 * from its digest, with a counter if that is taken as well.
 */
function addSignatures(found: Map<string, string>, files: AttachmentFiles, referrer: string): void {
  const label = referrer.slice('sha256:'.length, 'sha256:'.length + 32);
  for (const [name, text] of files) {
    if ([...found.values()].includes(text)) continue;
    let free = found.has(name) ? signatureFile(label) : name;
    for (let count = 2; found.has(free); count++) free = signatureFile(`${label}-${count}`);
    found.set(free, text);
  }
}

/** Fetches the files of a signature or an opening; empty for other types. */
async function attachment(source: VerifiedContent, referrer: OciDescriptor, subject: string): Promise<AttachmentFiles> {
  const { digest, artifactType: type } = referrer;
  const files = new Map<string, string>();
  if (type !== mediaTypes.signature && type !== mediaTypes.opening) return files;
  const manifest = readManifest(digest, await source.manifest(digest), type);
  if (manifest.subject?.digest !== subject) throw invalidContent(digest, `it does not refer to ${subject}`);
  const isOfSignature = type === mediaTypes.signature;
  const layersMax = isOfSignature ? 1 : 2;
  if (manifest.layers.length > layersMax) throw invalidContent(digest, `it has more than ${layersMax} files`);
  for (const layer of manifest.layers) {
    const name = layer.annotations?.[titleKey] ?? '';
    const isFitting = isOfSignature ? isSignatureFile(name) : isOpeningFile(name);
    if (!isFitting) throw invalidContent(digest, `it contains the file ${JSON.stringify(name.slice(0, 100))}`);
    const text = (await source.blob(layer, releaseLimits.signatureBytesMax)).toString('latin1');
    const wrong = isOfSignature ? malformed(text) : undefined;
    if (wrong !== undefined) throw invalidContent(digest, `${name} is not well-formed: ${wrong}`);
    files.set(name, text);
  }
  return files;
}

/** Why a file is not a signature of a release or an update, in words. Such a file would make nodes refuse the whole release. */
function malformed(text: string): string | undefined {
  const isUpdate = typeof readSignature(text, endpointsNamespace) !== 'string';
  const claim = readSignature(text, releaseNamespace);
  return isUpdate || typeof claim !== 'string' ? undefined : claim;
}
