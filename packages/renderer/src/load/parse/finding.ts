import type { ProblemCode } from '@sluice/netfilter';
import type { Path } from '../../render/kube.ts';

/** An error at an offset of a document's text; `parse.ts` converts it to a problem with a place. */
export interface ParseFinding {
  readonly code: ProblemCode;
  readonly offset: number;
  /** The path of the value. */
  readonly path: Path;
  readonly message: string;
  readonly hint: string;
}
