import type { Problem } from '@sluice/bundle';

/** The end of a conversation with an API server, as a problem. */
export class ClusterFailure extends Error {
  override readonly name = 'ClusterFailure';
  readonly problem: Problem;

  constructor(message: string, hint: string, code: 'INPUT_UNREADABLE' | 'INPUT_TOO_LARGE' = 'INPUT_UNREADABLE') {
    super(message);
    this.problem = { code, level: 'error', message, hint };
  }
}
