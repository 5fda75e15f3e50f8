import type { HttpOptions } from '../http/client.ts';
import { WebClient } from '../http/web.ts';
import { credentialsFor } from '../registry/authority.ts';
import { RegistryClient } from '../registry/client.ts';
import { archivePath } from './archive.ts';
import { directoryReceipts } from './directory.ts';
import { type GitAccess, gitReceipts } from './git.ts';
import { receiptTransportLimits } from './limits.ts';
import { ociReceipts } from './oci.ts';
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
