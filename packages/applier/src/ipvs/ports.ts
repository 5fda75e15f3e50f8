import type { Connections } from './drain.ts';
import type { KnownIpvsParts, ObservedIpvs, IpvsStep } from './values.ts';

/** What mode ipvs needs of the kernel. kernel/ipvs-linux.ts and kernel/ipvs-fake.ts pass the same contract suite. */
export interface IpvsKernel {
  /**
   * Everything, whoever made it.
   * @param known parts that are taken as given
   */
  observe(known?: KnownIpvsParts): Promise<ObservedIpvs>;
  /** The connections that real servers have now. */
  connections(): Promise<Connections>;
  /**
   * Takes a batch line by line. Throws a `KernelError` at a line that is not taken; those before it are: the way on and the
   * way back are planned from what the kernel shows then.
   */
  apply(step: IpvsStep): Promise<void>;
}
