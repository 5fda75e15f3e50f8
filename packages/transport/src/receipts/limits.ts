/** The limits of receipts in transport, with units. */
export const receiptTransportLimits = {
  /** The newest of a node. `sluice fleet` verifies four of them. */
  receiptsMax: 8,
  /** Eight receipts of the largest size with signatures of the largest size. */
  unpackedBytesMax: 320 * 1024,
  archiveBytesMax: 320 * 1024,
  /** Folders that are read at a time. */
  foldersAtOnce: 8,
  /** One call of git, with its transfer. */
  gitTimeoutMs: 5 * 60_000,
  /** Of a file that git writes, such as a pack: the archives of 100,000 nodes have some 400 MB. */
  gitFileBytesMax: 1024 * 1024 * 1024,
  /** The output of a call of git; archives are read in parts. */
  gitOutputBytesMax: 64 * 1024 * 1024,
} as const;
