import { constants } from 'node:fs';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { fileDigest } from '@sluice/bundle';
import { readRegular } from '../files/regular.ts';
import type { HttpOptions } from '../http/client.ts';
import { invalidContent } from '../http/failure.ts';
import { WebClient } from '../http/web.ts';
import { descriptorOf, emptyConfig, mediaTypes, printManifest, readManifest } from '../registry/artifact.ts';
import { credentialsFor } from '../registry/authority.ts';
import { pushBlob, pushManifest, readManifestBytes } from '../registry/blobs.ts';
import { RegistryClient } from '../registry/client.ts';
import type { Reference } from '../registry/reference.ts';
import { archivePath, placeOf } from './archive.ts';
import { type GitAccess, gitReceipts } from './git.ts';
import { receiptTransportLimits } from './limits.ts';
import type { ReceiptSpec } from './spec.ts';
import { ofOneNode, readByFolder, type ReceiptStore } from './store.ts';

/** How stores are reached. */
export interface ReceiptAccess {
  /** Without `credentials`, those of the docker config count, by the host. */
  readonly http: HttpOptions;
  readonly env: NodeJS.ProcessEnv;
  readonly git: GitAccess;
}

/**
 * The store that a spec names. Nothing is read yet.
 * @throws RegistryFailure for a URL that is not permitted
 */
export function openReceipts(spec: ReceiptSpec, { http, env, git }: ReceiptAccess): ReceiptStore {
  switch (spec.kind) {
    case 'oci':
      return ociReceipts(spec.reference, (reference) => new RegistryClient(reference, { ...http, env }));
    case 'https': {
      const { href, host } = spec.url;
      return webReceipts(new WebClient(href, { credentials: () => credentialsFor(host, env), ...http }));
    }
    case 'git':
      return gitReceipts(spec.url, git);
    case 'dir':
      return directoryReceipts(spec.path);
  }
}

/** A directory, such as a mounted one: `<path>/<folder>/<name>.tar.zst`, readable by all users. */
export function directoryReceipts(path: string): ReceiptStore {
  return {
    name: path,
    read: (nodes) =>
      readByFolder(
        nodes,
        () => path,
        async (directory, node) =>
          readRegular(join(directory, archivePath(node)), receiptTransportLimits.archiveBytesMax),
      ),
    write: (node, archive) => replace(join(path, archivePath(node)), archive),
  };
}

/** Replaces a file by rename, so that a reader at any moment finds a whole one. */
async function replace(file: string, bytes: Uint8Array): Promise<void> {
  await mkdir(dirname(file), { recursive: true, mode: 0o755 });
  const part = join(dirname(file), `.${basename(file)}.part`);
  await rm(part, { force: true });
  const handle = await open(part, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o644);
  try {
    await handle.writeFile(bytes);
    await handle.chmod(0o644);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(part, file);
}

const answerBytesMax = 64 * 1024;

/** A web server that takes `PUT`, such as one with WebDAV: `<url>/receipts/<folder>/<name>.tar.zst`. */
function webReceipts(client: WebClient): ReceiptStore {
  const at = (node: string): URL => client.at(`receipts/${archivePath(node)}`);
  const get = { method: 'GET', bytesMax: receiptTransportLimits.archiveBytesMax } as const;
  return {
    name: client.at('').href,
    async read(nodes) {
      try {
        return await readByFolder(
          nodes,
          () => client,
          (_client, node) =>
            ofOneNode(async () => {
              const { status, body } = await client.ask(`fetch the receipts of ${node}`, at(node), get, [200, 404]);
              return status === 200 ? body : undefined;
            }),
        );
      } finally {
        client.close();
      }
    },
    async write(node, body) {
      const headers = { 'content-type': 'application/zstd' };
      const put = { method: 'PUT', headers, body, bytesMax: answerBytesMax } as const;
      try {
        await client.ask(`send the receipts of ${node}`, at(node), put, [200, 201, 204]);
      } finally {
        client.close();
      }
    },
  };
}

/**
 * A registry: the repository `<repository>/receipts/<folder>` has a tag for each node. The archive is a layer whose descriptor also has it
 * as `data` (OCI image-spec 1.1, "Descriptor"), so that a reader asks once for each node. Registries require that the layer is there, too.
 * @param reference of the repository; its tag and digest do not matter
 * @param open a client for another repository of the same registry
 */
function ociReceipts(reference: Reference, open: (reference: Reference) => RegistryClient): ReceiptStore {
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
