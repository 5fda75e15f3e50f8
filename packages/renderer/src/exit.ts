/** The exit codes of `sluice`: a part of the one table in the README, which `sluiced` shares. */
export const exitCodes = {
  /** Done, or nothing differs. */
  done: 0,
  /** What is there is not what would be written. */
  different: 1,
  /** A problem in the input or the usage. */
  problem: 2,
} as const;
