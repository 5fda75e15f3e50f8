import type { Connections } from './drain.ts';
import type { KnownIpvs, ObservedIpvs, IpvsStep } from './values.ts';

/** The kernel's part of mode ipvs. kernel/ipvs/ipvs-linux.ts and kernel/fake pass the same contract suite. */
export interface IpvsKernel {
  /**
   * Reads the whole state, with foreign parts.
   * @param known parts that need not be read
   */
  observe(known?: KnownIpvs): Promise<ObservedIpvs>;
  /**
   * The present connections of all real servers.
   * @param of only connections of TCP and SCTP that are established, which IPVS calls active; not those of UDP, or that have ended and are
   *   remembered for two minutes
   */
  connections(of?: 'established'): Promise<Connections>;
  /**
   * Applies a batch line by line.
   * @throws KernelError at a line that the kernel refuses; those before it are applied. A retry or rollback is planned from the state
   *   observed then
   */
  apply(step: IpvsStep): Promise<void>;
}
