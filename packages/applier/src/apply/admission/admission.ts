import type { BundleFiles } from '@sluice/bundle';
import { type Problem, refusal } from '@sluice/netfilter';
import { admit, type AdmittedBundle, AdmitMemory, type AdmitOptions, isRefusal } from './admit.ts';
import { EndpointAddresses } from './endpoint-addresses.ts';
import { messageOf } from '../../message.ts';
import { leaveOut } from '../partial/leave-out.ts';
import type { NodeFacts } from '../../ports/node-facts.ts';
import type { Ports } from '../../ports/ports.ts';
import type { Refusal } from '../../ports/refusal.ts';
import { noTimeouts } from '../plan/virtual.ts';
import { familiesWithTools, type AdmissionReads } from './start-state.ts';
import { linksWithBpf, nftProblem, providesKubeChains, lacksModule, withoutIpvs } from './kernel-context.ts';

/** The settings of admission in the node's config. */
export interface AdmissionOptions extends AdmitOptions {
  /** Makes kube-proxy's chains ours when no kube-proxy runs. */
  readonly takeOver: boolean;
  /** Leaves kube-proxy's rules where they are, after ours, in mode nftables too. */
  readonly beneath?: boolean;
}

/** Admits bundles to one node. Reads what it needs of the kernel, and remembers what it parsed. */
export class Admission {
  readonly #ports: Ports;
  readonly #facts: () => NodeFacts;
  readonly #options: AdmissionOptions;
  readonly #memory = new AdmitMemory();
  readonly #addresses = new EndpointAddresses();
  #reads: AdmissionReads = {};

  constructor(ports: Ports, facts: () => NodeFacts, options: AdmissionOptions) {
    this.#ports = ports;
    this.#facts = facts;
    this.#options = options;
  }

  /**
   * Calls `admit` with the active state and the abilities of this kernel. Sysctls of mode ipvs exist only once its module is loaded, which
   * happens when virtual servers are first read.
   * @param whole also what is quarantined of it; else quarantined Services stay as the node has them
   */
  async of(files: BundleFiles, whole = false): Promise<AdmittedBundle | Refusal> {
    const admitted = await this.#read(files);
    return whole || isRefusal(admitted) ? admitted : this.#withoutQuarantined(admitted);
  }

  #withoutQuarantined(admitted: AdmittedBundle): AdmittedBundle | Refusal {
    const { journal, declined } = this.#ports;
    const { quarantinedServices } = journal;
    if (quarantinedServices.length === 0) return admitted;
    const left = leaveOut(admitted, journal.active, quarantinedServices, { declined: declined.read() });
    return 'why' in left ? { problems: [notLeftOut(admitted.version, left.why)] } : { ...admitted, ...left };
  }

  async #read(files: BundleFiles): Promise<AdmittedBundle | Refusal> {
    const { kernel, journal } = this.#ports;
    this.#reads = {};
    const startState = {
      active: journal.active?.state,
      provideKubeChains: await this.#provides(),
      knowsBpf: linksWithBpf(this.#ports),
    };
    const read = (): AdmittedBundle | Refusal => admit(files, this.#options, this.#facts(), this.#memory, startState);
    const admitted = read();
    const entersIpvs = isRefusal(admitted)
      ? admitted.problems.some(lacksModule)
      : admitted.state.ipvs !== undefined && journal.active?.state.ipvs === undefined;
    if (!entersIpvs || !kernel.ipvs) return this.#checked(admitted);
    try {
      this.#reads = { ...this.#reads, ipvs: await kernel.ipvs.observe(this.#options.takeOver ? {} : noTimeouts) };
    } catch (error) {
      return { problems: [withoutIpvs(messageOf(error))] };
    }
    return this.#checked(isRefusal(admitted) ? read() : admitted);
  }

  async #checked(admitted: AdmittedBundle | Refusal): Promise<AdmittedBundle | Refusal> {
    if (isRefusal(admitted)) return admitted;
    const lack = admitted.state.nft ? await nftProblem(this.#ports.kernel) : undefined;
    const problems = [...(lack ? [lack] : []), ...this.#addresses.check(admitted.state)];
    return problems.length === 0 ? admitted : { problems };
  }

  /** What was read of the kernel to admit the last bundle; can be taken once. */
  takeReads(): AdmissionReads {
    const reads = this.#reads;
    this.#reads = {};
    return reads;
  }

  async #provides(): Promise<boolean> {
    if (this.#options.layout !== 'tree' || this.#options.takeOver) return true;
    const { provides, tables } = await providesKubeChains(familiesWithTools(this.#facts()), this.#ports);
    if (tables) this.#reads = { tables };
    return provides;
  }
}

const notLeftOut = (version: string, why: string): Problem =>
  refusal(
    'BUNDLE_QUARANTINED',
    `Cannot apply version ${version} without its quarantined Services: ${why}`,
    'Publish another version of these Services, or lift their quarantine: `sluiced quarantine` lists them',
  );
