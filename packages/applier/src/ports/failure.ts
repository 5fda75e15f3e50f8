/**
 * Every way in which work of a tool, or of the kernel through it, ends without effect. Made where the tool is run (`kernel/failure.ts`);
 * a decision by a failure asks `isAnswer` of its kind, or has a table with all kinds.
 */
export type FailureKind =
  /** The kernel answered no, in the words of its tool: a fact about the rules and this kernel. */
  | 'refused'
  /** The tool, or a part of it, is not installed or does not start. */
  | 'missing'
  /** It did not end in time. */
  | 'hung'
  /** A signal ended it, or it ended before it had read its input. */
  | 'killed'
  /** Another process holds a lock that it needs. */
  | 'busy'
  /** Memory, space, processes or files are short. */
  | 'short'
  /** This process may not do it: another one owns the table, or a capability is missing. */
  | 'denied'
  /** Its output is not that of the tool. */
  | 'garbled';

/** Whether a failure tells something about the rules; if not, the same step may succeed later. */
const answers = {
  refused: true,
  missing: false,
  hung: false,
  killed: false,
  busy: false,
  short: false,
  denied: false,
  garbled: false,
} as const satisfies Readonly<Record<FailureKind, boolean>>;

/** Whether the kernel answered. Otherwise the surroundings of the tool failed, which are no fact about rules. */
export const isAnswer = (kind: FailureKind): boolean => answers[kind];

/** The kernel, or one of its tools, refused or failed. */
export class KernelError extends Error {
  override readonly name = 'KernelError';
  /** The command, such as `iptables-restore nat`. */
  readonly action: string;
  readonly kind: FailureKind;

  constructor(action: string, why: string, kind: FailureKind) {
    super(`Cannot run ${action}: ${why}`);
    this.action = action;
    this.kind = kind;
  }
}

/** A rehearsal could not be started or finished. It is no verdict on the rules. */
export class RehearsalError extends Error {
  override readonly name = 'RehearsalError';
  readonly hint: string;

  constructor(why: string, hint: string) {
    super(`Cannot rehearse: ${why}`);
    this.hint = hint;
  }
}

/** The kernel differs from the desired state after a repair: another program undoes it, or a tool has not done what it reported. */
export class StillDiffers extends Error {
  override readonly name = 'StillDiffers';

  /** @param steps that are missing still, in words */
  constructor(steps: readonly string[]) {
    super(`the kernel still differs: ${steps.join('; ')}`);
  }
}

/**
 * Whether an error comes from the surroundings: a tool that did not run to its end, another program, or a disk or memory without room.
 * Everything else is an answer of the kernel, or a fault of this program.
 */
export function isOfSurroundings(error: unknown): boolean {
  if (error instanceof KernelError) return !isAnswer(error.kind);
  if (error instanceof RehearsalError || error instanceof StillDiffers) return true;
  return (
    error instanceof Error && (error.name === 'StateError' || ('code' in error && /^E[A-Z]/.test(String(error.code))))
  );
}
