/** The limits of rules and their problems. packages/bundle/README.md, "Limits". */
export const ruleLimits = {
  /** Without a guard; iptables itself takes 10,240 bytes. */
  ruleBytesMax: 1_000,
  /** Rules for a machine's own addresses. */
  hostRulesMax: 100_000,
  /** Per file: the rest is reported once the first hundred are fixed. */
  problemsPerFileMax: 100,
} as const;
