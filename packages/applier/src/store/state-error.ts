import type { ProblemCode } from '@sluice/bundle';

/** What is wrong with the state directory; nothing was touched. */
export class StateError extends Error {
  override readonly name = 'StateError';
  readonly code: ProblemCode;
  readonly hint: string;

  /** @param cause what the system said */
  constructor(code: ProblemCode, why: string, hint: string, cause?: unknown) {
    super(`Cannot use the state directory: ${why}`, { cause });
    this.code = code;
    this.hint = hint;
  }
}
