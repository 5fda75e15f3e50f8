import type { Release } from '@sluice/bundle';
import { mediaTypes } from '../registry/artifact.ts';
import { pushBlob, pushManifest } from '../registry/blobs.ts';
import type { RegistryClient } from '../registry/client.ts';
import { pushReferrer } from '../registry/referrers.ts';
import { type Packed, type PackedRelease, packRelease } from './pack.ts';

/** What was pushed, to a registry or an image layout. */
export interface Pushed {
  /** The digest of the release, for `sluice pull`. */
  readonly digest: string;
  readonly layers: number;
  /** The number of layers that were not there. */
  readonly sent: number;
  readonly attachments: number;
}

const blobsAtATime = 4;

/**
 * Pushes a release, then its signatures, which refer to it. Pushing again sends only what is new.
 * @param files path → text of all of its files
 * @throws RegistryFailure
 */
export async function pushRelease(
  client: RegistryClient,
  release: Release,
  files: ReadonlyMap<string, string>,
  tag: string,
): Promise<Pushed> {
  const packed = packRelease(release, files);
  const { index, manifests, blobs, referrers } = packed;
  const sent = new Set<Packed>();
  const send = async (blob: Packed): Promise<void> => {
    if (await pushBlob(client, blob.descriptor, blob.bytes)) sent.add(blob);
  };
  // One alone at first: it brings the credentials for all, or a refusal.
  await Promise.all(blobs.slice(0, 1).map(send));
  for (let at = 1; at < blobs.length; at += blobsAtATime)
    await Promise.all(blobs.slice(at, at + blobsAtATime).map(send));
  // A tag names a release once all of its parts are there.
  for (const manifest of manifests) await push(client, manifest.descriptor.digest, manifest);
  await push(client, tag, index);
  for (const { manifest, blobs: own } of referrers) {
    for (const blob of own) await pushBlob(client, blob.descriptor, blob.bytes);
    await pushReferrer(client, index.descriptor, manifest.descriptor, manifest.bytes);
  }
  return countOf(packed, (layer) => sent.has(layer));
}

/** What was pushed of a release. @param isSent whether a layer was not there before */
export function countOf({ index, blobs, referrers }: PackedRelease, isSent: (layer: Packed) => boolean): Pushed {
  const layers = blobs.filter(({ descriptor }) => descriptor.mediaType === mediaTypes.archive);
  const sent = layers.filter(isSent).length;
  return { digest: index.descriptor.digest, layers: layers.length, sent, attachments: referrers.length };
}

const push = (client: RegistryClient, name: string, { descriptor, bytes }: Packed): Promise<unknown> =>
  pushManifest(client, name, descriptor.mediaType, bytes);
