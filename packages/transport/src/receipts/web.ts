import type { WebClient } from '../http/web.ts';
import { archivePath } from './archive.ts';
import { receiptTransportLimits } from './limits.ts';
import { ofOneNode, readByFolder, type ReceiptStore } from './store.ts';

const answerBytesMax = 64 * 1024;

/** A web server that takes `PUT`, such as one with WebDAV: `<url>/receipts/<folder>/<name>.tar.zst`. */
export function webReceipts(client: WebClient): ReceiptStore {
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
