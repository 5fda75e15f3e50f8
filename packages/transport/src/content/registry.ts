import { digestOfTag, readBlob, readManifestBytes } from '../registry/blobs.ts';
import type { RegistryClient } from '../registry/client.ts';
import { referrersOf } from '../registry/referrers.ts';
import type { Content } from './content.ts';

/** The releases in a repository of a registry. */
export function registryContent(client: RegistryClient): Content {
  const { registry, repository } = client.reference;
  return {
    name: `${registry}/${repository}`,
    resolve: (tag) => digestOfTag(client, tag),
    read: async (kind, digest, bytesMax) =>
      kind === 'blob'
        ? readBlob(client, digest, bytesMax)
        : ((await readManifestBytes(client, digest)) ?? Buffer.alloc(0)),
    referrers: (digest) => referrersOf(client, digest),
  };
}
