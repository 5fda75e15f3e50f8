/** The limits of a bundle. README.md, "Limits". */
export const bundleLimits = {
  fileBytesMax: 8 * 1024 * 1024,
  /** With its guard. */
  lineBytesMax: 64 * 1024,
  filesMax: 200_000,
  treeBytesMax: 512 * 1024 * 1024,
} as const;
