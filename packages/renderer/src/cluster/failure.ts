import type { Problem, ProblemCode } from '@sluice/bundle';

/** Why the conversation with an API server ended. Each has a line in the list of problems. */
export type ClusterCode = Extract<ProblemCode, `CLUSTER_${string}` | 'INPUT_TOO_LARGE'>;

/** The end of a conversation with an API server, as a problem. */
export class ClusterFailure extends Error {
  override readonly name = 'ClusterFailure';
  readonly problem: Problem;

  constructor(code: ClusterCode, message: string, hint: string) {
    super(message);
    this.problem = { code, level: 'error', message, hint };
  }
}
