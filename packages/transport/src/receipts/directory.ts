import { constants } from 'node:fs';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { readRegular } from '../files/regular.ts';
import { archivePath } from './archive.ts';
import { receiptTransportLimits } from './limits.ts';
import { readByFolder, type ReceiptStore } from './store.ts';

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
