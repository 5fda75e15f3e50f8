import type { ProblemCode } from '@sluice/bundle';
import type { Path } from '../../render/kube.ts';

/** Something wrong at an offset of a document's text; `parse.ts` makes a problem with a place of it. */
export interface Finding {
  readonly code: ProblemCode;
  readonly offset: number;
  /** The value that it is about. */
  readonly path: Path;
  readonly message: string;
  readonly hint: string;
}
