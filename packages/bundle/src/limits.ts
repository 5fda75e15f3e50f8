/** The limits of a bundle. README.md, "Limits". */
export const bundleLimits = {
  fileBytesMax: 8 * 1024 * 1024,
  /** With its guard. */
  lineBytesMax: 64 * 1024,
  /** Without its guard; iptables itself takes 10,240 bytes. */
  ruleBytesMax: 1_000,
  filesMax: 200_000,
  /** Per file: the rest is reported once the first hundred are fixed. */
  problemsPerFileMax: 100,
  /** Rules for a machine's own addresses. */
  hostRulesMax: 100_000,
  treeBytesMax: 512 * 1024 * 1024,
} as const;
