import type { ProblemCode } from '@sluice/netfilter';

/** A problem with the state directory; nothing was changed. */
export class StateError extends Error {
  override readonly name = 'StateError';
  readonly code: ProblemCode;
  readonly hint: string;

  /** @param cause the error of the system */
  constructor(code: ProblemCode, why: string, hint: string, cause?: unknown) {
    super(`Cannot use the state directory: ${why}`, { cause });
    this.code = code;
    this.hint = hint;
  }
}
