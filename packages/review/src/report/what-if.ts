/** The failures of single nodes, zones and endpoints that a report shows, worst first. Computed elsewhere. */
export type WhatIf = readonly Failure[];

export interface Failure {
  readonly kind: 'node' | 'zone' | 'endpoint';
  readonly name: string;
  /** The ports that lose all endpoints, `shop/web:http 80/TCP`. */
  readonly lost: readonly string[];
  /** Shares that pass a limit, one text each. */
  readonly over: readonly string[];
  /** The rules of the policy that would break. */
  readonly rules: readonly string[];
}
