import { archiveLimits, type Archive, fileDigest, isProblem, readArchive, sumsFile } from '@sluice/bundle';
import { type Descriptor, mediaTypes, profileKey, readManifest } from './artifact.ts';
import { pullAttachments } from './attachments.ts';
import { pullBlob, pullManifest } from './blobs.ts';
import type { RegistryClient } from './client.ts';
import { unlikely } from './failure.ts';

export interface Pulled {
  /** Path → text. */
  readonly files: ReadonlyMap<string, string>;
  /** Why something that refers to the release was not taken, in words for people. */
  readonly passedOver: readonly string[];
}

/**
 * Fetches a release and everything that refers to it. Every byte is one that the digest leads to, but for signatures and openings: these
 * are whatever somebody has added, and who verifies the release judges them.
 * @param profile only what nodes of this profile need; everything when left out
 * @throws RegistryFailure
 */
export async function pullRelease(
  client: RegistryClient,
  digest: string,
  profileOf?: (shared: ReadonlyMap<string, string>) => string,
): Promise<Pulled> {
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
  const attached = await pullAttachments(client, digest, fileDigest(files.get(sumsFile) ?? ''));
  return { files: new Map([...files, ...attached.files]), passedOver: attached.passedOver };
}

const isProfile = ({ annotations }: Descriptor): boolean => annotations?.[profileKey] !== undefined;

async function pullLayer(client: RegistryClient, layer: Descriptor): Promise<Archive['files']> {
  const archive = readArchive(layer.digest, await pullBlob(client, layer, archiveLimits.archiveBytesMax));
  if (isProblem(archive)) throw unlikely(layer.digest, archive.message);
  return archive.files;
}
