import type { Family } from '@sluice/netfilter';

/** How the kube-proxy of a node is stopped and kept from returning. */
export type Hold =
  /** A unit of systemd. */
  | { readonly kind: 'unit'; readonly unit: string }
  /** A static pod of the kubelet, by the path of its manifest. */
  | { readonly kind: 'manifest'; readonly manifest: string }
  /** The operator does it: labels the node so that a DaemonSet leaves it, or stops the program that contains kube-proxy. */
  | { readonly kind: 'operator' };

/**
 * The move of a node from kube-proxy to Sluice, or back. It has no steps of its own on disk: each step is planned from the kernel and the
 * goal, so that a move which ended anywhere is continued by doing it again.
 */
export interface Adoption {
  /** Who is to serve. */
  readonly goal: 'sluice' | 'kube-proxy';
  readonly hold: Hold;
  /** Generation 0 has kube-proxy's rules, because they are about to be removed. */
  readonly isStored: boolean;
  /** What was elsewhere when kube-proxy was let back: it does not show that kube-proxy has written its rules. */
  readonly leftovers?: RulesElsewhere | undefined;
}

/** By family a digest of what a kube-proxy has written elsewhere than into Sluice's rule store; without a family: nothing. */
export type RulesElsewhere = { readonly [F in Family]?: string | undefined };

/** The kube-proxy of this node. kube-proxy/kube-proxy.ts implements it. */
export interface KubeProxy {
  /** What shows that it runs, in words: its processes, also those in containers; or its health port, where another program contains it. */
  running(): readonly string[];
  /** Why it could not be held, such as a unit that does not exist; undefined: it can. Changes nothing. */
  refuses(hold: Hold): Promise<string | undefined>;
  /**
   * Stops it and keeps it from returning, also after a boot. Does nothing where that was done.
   * @throws KernelError where it cannot be done
   */
  hold(hold: Hold): Promise<void>;
  /**
   * Lets it return, and starts it. Does nothing where that was done.
   * @returns why it did not start, though it may
   * @throws KernelError where it is kept from returning still
   */
  release(hold: Hold): Promise<string | undefined>;
}
