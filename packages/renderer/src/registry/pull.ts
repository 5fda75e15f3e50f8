import {
  archiveLimits,
  type Archive,
  isOpeningFile,
  isProblem,
  isSignatureFile,
  openingFile,
  readArchive,
  readOpening,
  releaseLimits,
  signatureFile,
} from '@sluice/bundle';
import { type Descriptor, mediaTypes, profileKey, readManifest, titleKey } from './artifact.ts';
import { pullBlob, pullManifest } from './blobs.ts';
import type { RegistryClient } from './client.ts';
import { unlikely } from './failure.ts';
import { referrersOf } from './referrers.ts';

/**
 * Fetches a release and everything that refers to it. Every byte is one that the digest leads to, but for signatures and openings: these
 * are whatever somebody has added, and who verifies the release judges them.
 * @param profile only what nodes of this profile need; everything when left out
 * @returns path → text
 * @throws RegistryFailure
 */
export async function pullRelease(
  client: RegistryClient,
  digest: string,
  profileOf?: (shared: ReadonlyMap<string, string>) => string,
): Promise<ReadonlyMap<string, string>> {
  const manifest = readManifest(digest, await pullManifest(client, digest), mediaTypes.release);
  const [shared, ...profiles] = manifest.layers.toSorted((a, b) => Number(isProfile(a)) - Number(isProfile(b)));
  if (shared === undefined || isProfile(shared)) throw unlikely(digest, 'no layer has what all nodes need');
  const files = new Map(await pullLayer(client, shared));
  const wanted = profileOf?.(files);
  for (const layer of profiles) {
    if (wanted !== undefined && layer.annotations?.[profileKey] !== wanted) continue;
    for (const [path, text] of await pullLayer(client, layer)) {
      if (files.has(path)) throw unlikely(digest, `two of its layers have ${path}`);
      files.set(path, text);
    }
  }
  for (const [name, text] of await attachments(client, digest)) files.set(name, text);
  return files;
}

const isProfile = ({ annotations }: Descriptor): boolean => annotations?.[profileKey] !== undefined;

async function pullLayer(client: RegistryClient, layer: Descriptor): Promise<Archive['files']> {
  const archive = readArchive(layer.digest, await pullBlob(client, layer, archiveLimits.archiveBytesMax));
  if (isProblem(archive)) throw unlikely(layer.digest, archive.message);
  return archive.files;
}

/** Signatures by their names, and of the openings the one that is open furthest. */
async function attachments(client: RegistryClient, digest: string): Promise<ReadonlyMap<string, string>> {
  const signatures = new Map<string, string>();
  let opened: ReadonlyMap<string, string> = new Map();
  for (const { digest: referrer, artifactType } of await referrersOf(client, digest)) {
    if (artifactType !== mediaTypes.signature && artifactType !== mediaTypes.opening) continue;
    const files = await attachment(client, referrer, artifactType, digest);
    if (artifactType === mediaTypes.signature) addSignatures(signatures, files, referrer);
    else if (openOf(files) > openOf(opened)) opened = files;
  }
  return new Map([...signatures, ...opened]);
}

/**
 * A signer who signs a release anew gives the file its old name, and registries keep both. A name says nothing of who signed, so the
 * second gets one from its digest.
 */
function addSignatures(found: Map<string, string>, files: ReadonlyMap<string, string>, referrer: string): void {
  for (const [name, text] of files) {
    if ([...found.values()].includes(text)) continue;
    const free = found.has(name) ? signatureFile(referrer.slice('sha256:'.length, 'sha256:'.length + 32)) : name;
    if (found.has(free)) throw unlikely(referrer, `its signature would be called ${free}, as another one is`);
    found.set(free, text);
  }
}

async function attachment(
  client: RegistryClient,
  digest: string,
  type: string,
  subject: string,
): Promise<ReadonlyMap<string, string>> {
  const manifest = readManifest(digest, await pullManifest(client, digest), type);
  if (manifest.subject?.digest !== subject) throw unlikely(digest, `it does not refer to ${subject}`);
  const files = new Map<string, string>();
  for (const layer of manifest.layers) {
    const name = layer.annotations?.[titleKey] ?? '';
    const isFitting = type === mediaTypes.signature ? isSignatureFile(name) : isOpeningFile(name);
    if (!isFitting) throw unlikely(digest, `it has ${JSON.stringify(name.slice(0, 100))}`);
    files.set(name, (await pullBlob(client, layer, releaseLimits.signatureBytesMax)).toString('latin1'));
  }
  return files;
}

function openOf(files: ReadonlyMap<string, string>): number {
  const opening = readOpening(files.get(openingFile) ?? '');
  return isProblem(opening) ? -1 : opening.open;
}
