import { fileDigest } from '@sluice/bundle';
import { invalidContent } from '../http/failure.ts';
import { descriptorOf, emptyConfig, mediaTypes, printManifest, readManifest } from '../registry/artifact.ts';
import { pushBlob, pushManifest, readManifestBytes } from '../registry/blobs.ts';
import type { RegistryClient } from '../registry/client.ts';
import type { Reference } from '../registry/reference.ts';
import { placeOf } from './archive.ts';
import { ofOneNode, readByFolder, type ReceiptStore } from './store.ts';

/**
 * A registry: the repository `<repository>/receipts/<folder>` has a tag for each node. The archive is a layer whose descriptor also has it
 * as `data` (OCI image-spec 1.1, "Descriptor"), so that a reader asks once for each node. Registries require that the layer is there, too.
 * @param reference of the repository; its tag and digest do not matter
 * @param open a client for another repository of the same registry
 */
export function ociReceipts(reference: Reference, open: (reference: Reference) => RegistryClient): ReceiptStore {
  const { registry, repository } = reference;
  const clientOf = (folder: string): RegistryClient =>
    open({ registry, repository: `${repository}/receipts/${folder}` });
  return {
    name: `oci://${registry}/${repository}`,
    read: (nodes) =>
      readByFolder(
        nodes,
        clientOf,
        (client, node) => ofOneNode(() => archiveOf(client, placeOf(node).name)),
        (client) => client.close(),
      ),
    async write(node, archive) {
      const { folder, name } = placeOf(node);
      const client = clientOf(folder);
      const layer = descriptorOf(mediaTypes.archive, archive);
      const layers = [{ ...layer, data: Buffer.from(archive).toString('base64') }];
      const manifest = printManifest({ artifactType: mediaTypes.receipts, layers });
      try {
        await pushBlob(client, descriptorOf(mediaTypes.empty, emptyConfig), emptyConfig);
        await pushBlob(client, layer, archive);
        await pushManifest(client, name, mediaTypes.manifest, manifest);
      } finally {
        client.close();
      }
    },
  };
}

/** @returns undefined for a tag that is missing @throws RegistryFailure */
async function archiveOf(client: RegistryClient, tag: string): Promise<Uint8Array | undefined> {
  const bytes = await readManifestBytes(client, tag, [200, 404]);
  if (bytes === undefined) return undefined;
  const what = `${client.reference.repository}:${tag}`;
  const [layer] = readManifest(what, bytes, mediaTypes.receipts).layers;
  const archive = Buffer.from(layer?.data ?? '', 'base64');
  if (`sha256:${fileDigest(archive)}` !== layer?.digest)
    throw invalidContent(what, 'the data of its layer do not match the digest');
  return archive;
}
