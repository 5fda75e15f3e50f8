/** The exit codes of both programs. docs/exit-codes.md has the table. */
export const exitCodes = {
  done: 0,
  different: 1,
  problem: 2,
  refused: 3,
  rolledBack: 4,
  halted: 5,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** One line per code, for pages, manuals and help. */
export const exitMeanings: Readonly<Record<ExitCode, string>> = {
  0: 'done, or no difference',
  1: 'a finding: a difference, a stale output, an alarm, or a declined confirmation; the command itself worked',
  2: 'a problem in the input, the usage or the environment; the command did not do its work, or could not end it yet (`sluiced` tries again by itself)',
  3: 'refused by the node; nothing was changed',
  4: 'rolled back: the old rules are in the kernel, or an older generation was loaded at a boot',
  5: 'halted: automatic work has stopped, manual intervention is required',
};

/** `0 done, or no difference; 1 …`, for the end of a help. */
export function exitLine(codes: readonly ExitCode[]): string {
  return `Exit codes: ${codes.map((code) => `${code} ${exitMeanings[code]}`).join('; ')}.`;
}
