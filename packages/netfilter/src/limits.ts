/** The limits of rules and their problems. packages/bundle/README.md, "Limits". */
export const ruleLimits = {
  /** Without a guard; iptables itself takes 10,240 bytes. */
  ruleBytesMax: 1_000,
  /** Rules for a machine's own addresses. */
  hostRulesMax: 100_000,
  /** Per file: the rest is reported once the first hundred are fixed. */
  problemsPerFileMax: 100,
} as const;

/** From which size on a removal is held, and how long, unless a config says otherwise. */
export const removalDefaults = {
  /** More than this share of all Services, or of all endpoints. */
  share: 0.5,
  /** At least so many of them: less is ordinary work in a small cluster. */
  least: 10,
  /** The time that an operator has to see the alarm and to look; Services that are gone for good cost little meanwhile. */
  holdMs: 10 * 60_000,
} as const;
