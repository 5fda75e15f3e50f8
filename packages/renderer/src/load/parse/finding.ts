import type { ProblemCode } from '@sluice/netfilter';
import type { Path } from '../../render/model/kube.ts';
import { loadLimits } from './limits.ts';

/** An error at an offset of a document's text; `parse.ts` converts it to a problem with a place. */
export interface ParseFinding {
  readonly code: ProblemCode;
  readonly offset: number;
  /** The path of the value. */
  readonly path: Path;
  readonly message: string;
  readonly hint: string;
}

/** What the values of a document are found to be. */
export class Findings {
  /** For every reader. */
  readonly errors: ParseFinding[] = [];
  /** Values that parsers disagree on: an error only in an object that Sluice reads. */
  readonly doubts: ParseFinding[] = [];
  /** Of the value that is read now. */
  readonly path: (string | number)[] = [];

  doubt(code: ParseFinding['code'], offset: number, message: string, hint: string): void {
    this.doubts.push({ code, offset, path: [...this.path], message, hint });
  }

  /** At most `errorsPerDocumentMax` are kept. */
  refuse(code: ParseFinding['code'], offset: number, message: string, hint: string): void {
    if (this.errors.length < loadLimits.errorsPerDocumentMax)
      this.errors.push({ code, offset, path: [...this.path], message, hint });
  }
}
