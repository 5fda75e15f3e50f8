import type { ObservedIpvs } from '../ipvs/values.ts';
import type { NodeState } from '../ports/node-state.ts';
import type { TransactionResult } from '../transaction/planned-change.ts';

/** The state of the kernel when it was last compared, or written and verified. What is undefined must be read. */
export class KernelMemory {
  tables: NodeState | undefined;
  ipvs: ObservedIpvs | undefined;

  /** After a transaction: as far as it knows the kernel. */
  remember({ kernelState, ipvs }: Pick<TransactionResult, 'kernelState' | 'ipvs'>): void {
    this.tables = kernelState;
    this.ipvs = ipvs;
  }
}
