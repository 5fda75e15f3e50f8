/** What a reader of bundles accepts. README.md, "Limits". */
export const bundleLimits = {
  fileBytesMax: 8 * 1024 * 1024,
  /** With its guard. */
  lineBytesMax: 64 * 1024,
  /** Without its guard; iptables itself takes 10,240 bytes. */
  ruleBytesMax: 1_000,
  filesMax: 200_000,
  /** Of one file: who mends the first hundred sees what is left. */
  problemsPerFileMax: 100,
  /** Rules that a machine gets for its own addresses. */
  hostRulesMax: 100_000,
  treeBytesMax: 512 * 1024 * 1024,
} as const;
