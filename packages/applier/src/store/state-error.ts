import type { ProblemCode } from '@sluice/bundle';

/** What is wrong with the state directory; nothing was touched. */
export class StateError extends Error {
  override readonly name = 'StateError';
  readonly code: ProblemCode;
  readonly hint: string;

  constructor(code: ProblemCode, why: string, hint: string) {
    super(`Cannot use the state directory: ${why}`);
    this.code = code;
    this.hint = hint;
  }
}
