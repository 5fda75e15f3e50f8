import { archiveLimits, type Archive, fileDigest, isProblem, readArchive, sumsFile } from '@sluice/bundle';
import { type OciDescriptor, mediaTypes, profileKey, readManifest } from './artifact.ts';
import { pullAttachments } from './attachments.ts';
import { pullBlob, pullManifest } from './blobs.ts';
import type { RegistryClient } from './client.ts';
import { invalidContent } from './failure.ts';

interface Pulled {
  /** Path → text. */
  readonly files: ReadonlyMap<string, string>;
  /** Why referrers were ignored, in words. */
  readonly passedOver: readonly string[];
}

/**
 * Fetches a release with its signatures and openings. The digest covers every byte of the release; signatures and openings are unverified,
 * because anyone may add them.
 * @param profileOf selects a profile to fetch; default: all
 * @throws RegistryFailure
 */
export async function pullRelease(
  client: RegistryClient,
  digest: string,
  profileOf?: (shared: ReadonlyMap<string, string>) => string,
): Promise<Pulled> {
  const manifest = readManifest(digest, await pullManifest(client, digest), mediaTypes.release);
  const [shared, ...profiles] = manifest.layers.toSorted((a, b) => Number(isProfile(a)) - Number(isProfile(b)));
  if (shared === undefined || isProfile(shared))
    throw invalidContent(digest, 'the layer of the shared files is missing');
  const files = new Map(await pullLayer(client, shared));
  const wanted = profileOf?.(files);
  for (const layer of profiles) {
    if (wanted !== undefined && layer.annotations?.[profileKey] !== wanted) continue;
    for (const [path, text] of await pullLayer(client, layer)) {
      if (files.has(path)) throw invalidContent(digest, `two of its layers contain ${path}`);
      files.set(path, text);
    }
  }
  const attached = await pullAttachments(client, digest, fileDigest(files.get(sumsFile) ?? ''));
  return { files: new Map([...files, ...attached.files]), passedOver: attached.passedOver };
}

const isProfile = ({ annotations }: OciDescriptor): boolean => annotations?.[profileKey] !== undefined;

async function pullLayer(client: RegistryClient, layer: OciDescriptor): Promise<Archive['files']> {
  const archive = readArchive(layer.digest, await pullBlob(client, layer, archiveLimits.archiveBytesMax));
  if (isProblem(archive)) throw invalidContent(layer.digest, archive.message);
  return archive.files;
}
