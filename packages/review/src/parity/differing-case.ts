import type { Mode, RuleHit } from '@sluice/netfilter';
import type { NodeOf } from '../bundle/node.ts';
import type { FlowOutcome } from '../flows/flow.ts';
import type { FlowRow } from '../flows/flows.ts';
import type { DeclaredFrontend } from '../prove/declared.ts';

/** The modes of both sides; a node may have rules of several. */
export interface ComparedModes {
  readonly observed: readonly Mode[];
  readonly desired: Mode;
}

/** A case that the two sides treat differently. */
export interface DifferingCase {
  readonly row: Omit<FlowRow, 'outcomes'>;
  readonly frontend: DeclaredFrontend | undefined;
  readonly node: NodeOf;
  readonly modes: ComparedModes;
  readonly observed: FlowOutcome;
  readonly desired: FlowOutcome;
  /** Of a node port: whether the packet goes to another address than that of the Node. */
  readonly isOtherAddress: boolean;
  readonly proxy: ObservedProxy;
  /** A rule of another program that decided. */
  readonly foreign: RuleHit | undefined;
}

/** What an observation tells of the kube-proxy that wrote its rules. */
export interface ObservedProxy {
  /** Of `v1.31.4`, 31; undefined where the observation does not name its version. */
  readonly minor: number | undefined;
  /** Mode ipvs: frontends that admit the clients of some source ranges only: `198.51.100.101,tcp:80`. */
  readonly restricted: ReadonlySet<string>;
}
