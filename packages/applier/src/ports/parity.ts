import type { Refusal } from './refusal.ts';

/**
 * Whether a node may take over from the Service rules that it has: asked before the first change of a node on which kube-proxy's or other
 * Service rules stand. parity/gate.ts implements it.
 */
export interface ParityGate {
  /** Whether Service rules stand where the transaction does not look: in the other rule store. */
  servesElsewhere(): Promise<boolean>;
  /**
   * @param version of the node's rules in the bundle
   * @returns why not; undefined: it may
   */
  refuse(version: string): Promise<Refusal | undefined>;
}
