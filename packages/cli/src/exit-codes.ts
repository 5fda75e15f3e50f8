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

/** Command → its exit codes besides 0 and 2, with their meaning there. */
export const exitDetails: Readonly<Record<'sluice' | 'sluiced', Readonly<Record<string, string>>>> = {
  sluice: {
    render: '1 with --check: DIR is out of date',
    diff: '1 the bundles differ',
    report: '1 the bundles differ',
    bisect: '1 several commits are left that may have made the change',
    prove: '1 a rule does not do what its Service declares',
    parity: '1 a node treats packets differently; 2 also: not everything could be compared',
    cost: '1 a budget is exceeded',
    policy: '1 an error without a waiver',
    'what-if': '1 with --exit-code: a failure takes something from clients',
    doctor: '1 a cause was found',
    krm: '1 `check` is set and the bundle directory is out of date',
    promote: '1 the next wave must not open yet; with --auto only where an operator must look',
    fleet: '1 a node does not have the rules that it should have',
    'allocations prune': '1 unused allocations were found and kept',
  },
  sluiced: {
    preflight: '3 this node cannot run the bundle',
    apply: '1 with --dry-run: something would change; else Services were left out; 3 refused; 4 rolled back; 5 halted',
    import: '3 the archive is refused, or cannot be placed',
    fetch: '3 refused: the source has a release that this node must not take, or the directory is in use',
    boot: '3 the state directory cannot be used; 4 an older generation was loaded; 5 halted',
    run: '3 the state directory cannot be used',
    rehearse: '3 a tool refused the rules',
    status:
      '1 the kernel differs, the daemon is not healthy or missing, an alarm is open, the generation is partial, or --wait waited in vain; with --wait also 3 refused; 4 rolled back; 5 halted',
    top: '1 --service has no counted connections; 3 not root',
    show: '1 the kernel differs, or has no such Service; 3 not root',
    observe: '3 not root',
    doctor: '1 a cause was found; 3 not root',
    rollback: '1 not confirmed, or --dry-run found a change; 3 refused, such as during `sluiced apply`; 5 halted',
    drain: '1 with --wait: clients are left that were not told; 3 no daemon answers',
    undrain: '3 no daemon answers',
    quarantine: '3 the state directory cannot be used',
    checkpoint: '3 the state directory cannot be used',
    confirm: '1 still on probation; 3 the state directory cannot be used; 4 rolled back; 5 halted',
    cancel: '1 still on probation; 3 the state directory cannot be used; 5 halted',
    extend: '3 the state directory cannot be used; 4 rolled back; 5 halted',
    recover: '3 the state of this node cannot be recovered',
    backend: '1 the store in use has a problem; 3 the state directory cannot be used',
    cleanup: '1 not confirmed, or --dry-run found a generation; 3 refused, such as while a daemon runs',
  },
};

/** `0 done, or no difference; 1 …`, for the end of a help. */
export function exitLine(codes: readonly ExitCode[]): string {
  return `Exit codes: ${codes.map((code) => `${code} ${exitMeanings[code]}`).join('; ')}.`;
}
