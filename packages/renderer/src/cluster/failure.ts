import type { Problem, ProblemCode } from '@sluice/netfilter';

/** The problem codes of failed requests to an API server. */
type ClusterCode = Extract<ProblemCode, `CLUSTER_${string}` | 'INPUT_TOO_LARGE'>;

/** A failed request to an API server, as a problem. */
export class ClusterFailure extends Error {
  override readonly name = 'ClusterFailure';
  readonly problem: Problem;
  /** Of a refusal by the server. */
  readonly status: number | undefined;

  constructor(code: ClusterCode, message: string, hint: string, status?: number) {
    super(message);
    this.status = status;
    this.problem = { code, level: 'error', message, hint };
  }
}
