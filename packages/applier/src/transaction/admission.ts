import type { BundleFiles } from '@sluice/bundle';
import { admit, type AdmittedBundle, AdmitMemory, type AdmitOptions, isRefusal } from '../rollout/admit.ts';
import { EndpointAddresses } from '../rollout/endpoint-addresses.ts';
import { messageOf } from '../rollout/message.ts';
import type { NodeFacts, Ports, Refusal } from '../rollout/ports.ts';
import { noTimeouts } from '../rollout/virtual.ts';
import { familiesWithTools, type Looked } from './start-state.ts';
import { linksWithBpf } from './linked.ts';
import { providesKubeChains } from './provides.ts';
import { lacksModule, withoutIpvs } from './refusals.ts';

/** What the node's config says about taking part. */
export interface AdmissionOptions extends AdmitOptions {
  /** Makes kube-proxy's chains ours when no kube-proxy runs. */
  readonly takeOver: boolean;
}

/** Admits bundles to one node: what a kernel must be asked for that is asked, and what was read before costs nothing. */
export class Admission {
  readonly #ports: Ports;
  readonly #facts: () => NodeFacts;
  readonly #options: AdmissionOptions;
  readonly #memory = new AdmitMemory();
  readonly #addresses = new EndpointAddresses();
  #looked: Looked = {};

  constructor(ports: Ports, facts: () => NodeFacts, options: AdmissionOptions) {
    this.#ports = ports;
    this.#facts = facts;
    this.#options = options;
  }

  /**
   * `admit`, with what stands and what this kernel can do. Sysctls of mode ipvs are there once its module is, which the first look at
   * virtual servers loads.
   */
  async of(files: BundleFiles): Promise<AdmittedBundle | Refusal> {
    const { kernel, journal } = this.#ports;
    this.#looked = {};
    const startState = {
      active: journal.active?.state,
      provideKubeChains: await this.#provides(),
      knowsBpf: linksWithBpf(this.#ports),
    };
    const read = (): AdmittedBundle | Refusal => admit(files, this.#options, this.#facts(), this.#memory, startState);
    const admitted = read();
    const comesToIpvs = isRefusal(admitted)
      ? admitted.problems.some(lacksModule)
      : admitted.state.ipvs !== undefined && journal.active?.state.ipvs === undefined;
    if (!comesToIpvs || !kernel.ipvs) return this.#checked(admitted);
    try {
      this.#looked = { ...this.#looked, ipvs: await kernel.ipvs.observe(this.#options.takeOver ? {} : noTimeouts) };
    } catch (error) {
      return { problems: [withoutIpvs(messageOf(error))] };
    }
    return this.#checked(isRefusal(admitted) ? read() : admitted);
  }

  #checked(admitted: AdmittedBundle | Refusal): AdmittedBundle | Refusal {
    const problems = isRefusal(admitted) ? [] : this.#addresses.check(admitted.state);
    return problems.length === 0 ? admitted : { problems };
  }

  /** What was read of the kernel to admit the last bundle; given once. */
  takeLooked(): Looked {
    const looked = this.#looked;
    this.#looked = {};
    return looked;
  }

  async #provides(): Promise<boolean> {
    if (this.#options.layout !== 'tree' || this.#options.takeOver) return true;
    const { provides, tables } = await providesKubeChains(familiesWithTools(this.#facts()), this.#ports);
    if (tables) this.#looked = { tables };
    return provides;
  }
}
