import type { Mode } from '@sluice/netfilter';
import type { Input, Question } from './cluster.ts';

/** A test that shows a cell: a file, and a part of the title of a test in it. */
export interface Shown {
  readonly file: string;
  readonly title: string;
}

/** What a column shows of a feature: a test; why it differs there; or that no test shows it yet. */
export type Cell = Shown | { readonly differs: string } | { readonly missing: string };

/** An answer in all modes, or in each. */
export type Answer = string | Readonly<Record<Mode, string>>;

/** A question with the answer where the field is set, and where it is not, or is something else. */
export interface Check {
  readonly ask: Question;
  readonly set: Answer;
  readonly unset: Answer;
}

/** A field of the input that means something to packets. */
export interface FieldRow {
  /** `Service spec.externalIPs` */
  readonly field: string;
  /** The rest of the input, with and without the field. */
  readonly given?: Input;
  readonly set: Input;
  readonly unset?: Input;
  readonly checks: readonly Check[];
  /** Tests elsewhere, for what the cluster of this table does not have. */
  readonly cells?: Readonly<Record<Mode, Cell>>;
  /** Modes in which the field changes nothing, with the reason; there `checks` have the same answer for both. */
  readonly differs?: Readonly<Partial<Record<Mode, string>>>;
}
