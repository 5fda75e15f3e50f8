import type { FindingLevel, PolicyCode } from './catalogue.ts';

/** A violation of a rule. */
export interface Violation {
  readonly code: PolicyCode;
  /** The object of the finding, which a waiver names: `shop/web`, `Node node-a`, `profile default`, `bundle`. */
  readonly subject: string;
  /** "Cannot ⟨accept⟩ ⟨what⟩: ⟨why⟩", or "⟨what⟩ will ⟨change⟩; review required"; without a full stop. */
  readonly message: string;
  readonly hint: string;
  /** The file of the bundle that causes it; with `isInput` the file of `-f`. */
  readonly path: string;
  readonly isInput?: true;
  /** The line of that file, from 1. */
  readonly line: number;
}

/** What a rule finds in one thing. */
export type Violations = Violation | readonly Violation[];

/** What a rule finds in the file of a Service or profile. */
export interface Found extends Pick<Violation, 'code' | 'message' | 'hint'> {
  /** What its line has; absent: the first line. */
  readonly at?: string;
}

/** A violation with its level, as it is reported. */
export interface PolicyFinding extends Violation {
  readonly level: FindingLevel;
  readonly reason: string;
  /** The waiver that accepts it: it does not fail the command. */
  readonly waived?: { readonly reason: string; readonly expires: string };
}
