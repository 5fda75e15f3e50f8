import type { FindingLevel, PolicyCode } from './catalogue.ts';

/** Something that a rule forbids. */
export interface Found {
  readonly code: PolicyCode;
  /** What it is about, and what a waiver names: `shop/web`, `Node node-a`, `profile default`, `bundle`. */
  readonly subject: string;
  /** "Cannot ⟨accept⟩ ⟨what⟩: ⟨why⟩", without a full stop. */
  readonly message: string;
  readonly hint: string;
  /** The file of the bundle that says so. */
  readonly path: string;
  /** The line of that file, from 1. */
  readonly line: number;
}

/** A finding as it is reported. */
export interface Finding extends Found {
  readonly level: FindingLevel;
  readonly reason: string;
  /** Somebody answers for it; it fails nothing. */
  readonly waived?: { readonly reason: string; readonly expires: string };
}
