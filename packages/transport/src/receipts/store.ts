import { RegistryFailure } from '../http/failure.ts';
import { placeOf } from './archive.ts';
import { receiptTransportLimits } from './limits.ts';

/** Where the archives of receipts are: a registry, a web server, a Git repository or a directory. Nothing that it returns is verified. */
export interface ReceiptStore {
  /** For messages, such as `oci://registry.example.com/sluice/shop`. */
  readonly name: string;
  /**
   * The archives of nodes. Nothing is listed but what a kind cannot read otherwise.
   * @returns node → its archive, or in words why it cannot be used; a node without an archive is left out
   * @throws RegistryFailure when the store cannot be reached or refuses access; errors of the file system
   */
  read(nodes: readonly string[]): Promise<ReadonlyMap<string, Uint8Array | string>>;
  /**
   * Replaces the archive of a node.
   * @throws RegistryFailure, or errors of the file system
   */
  write(node: string, archive: Uint8Array): Promise<void>;
}

/**
 * Reads the archives of nodes, of a few folders at a time. Within a folder one follows the other: a registry asks for credentials once.
 * @param open a folder, which `close` ends
 */
export async function readByFolder<Folder>(
  nodes: readonly string[],
  open: (folder: string) => Folder,
  read: (folder: Folder, node: string) => Promise<Uint8Array | string | undefined>,
  close: (folder: Folder) => void = () => undefined,
): Promise<ReadonlyMap<string, Uint8Array | string>> {
  const found = new Map<string, Uint8Array | string>();
  const folders = Map.groupBy(nodes, (node) => placeOf(node).folder).entries();
  const work = async (): Promise<void> => {
    // The workers share the iterator.
    for (const [folder, own] of folders) {
      const opened = open(folder);
      try {
        for (const node of own) {
          const archive = await read(opened, node);
          if (archive !== undefined) found.set(node, archive);
        }
      } finally {
        close(opened);
      }
    }
  };
  await Promise.all(Array.from({ length: receiptTransportLimits.foldersAtOnce }, work));
  return found;
}

/**
 * Reads the archive of one node. What the node, or the store, put in its place is a matter of this node alone.
 * @returns in words why it cannot be used
 * @throws RegistryFailure where no node could be read: no access, no answer, a failure of the server
 */
export async function ofOneNode<T>(read: () => Promise<T>): Promise<T | string> {
  try {
    return await read();
  } catch (error) {
    const isOfNode = error instanceof RegistryFailure && error.problem.code === 'REGISTRY_INVALID' && !error.status;
    if (!isOfNode) throw error;
    return error.message;
  }
}
