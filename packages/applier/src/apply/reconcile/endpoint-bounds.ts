import { type BundleFiles, changedFiles, readPath } from '@sluice/bundle';
import { networksOf, refuseOutside } from '../endpoints/endpoint-networks.ts';
import { EndpointRate } from '../endpoints/endpoint-changes.ts';
import { messageOf } from '../../message.ts';
import type { Generation, VersionedState } from '../../ports/journal.ts';
import type { Outcome } from '../../ports/outcome.ts';
import type { Ports } from '../../ports/ports.ts';
import type { Refusal } from '../../ports/refusal.ts';

/** What bounds keys for endpoints: the networks of the last confirmed release, and the rate of their changes. */
export class EndpointBounds {
  readonly #ports: Pick<Ports, 'journal' | 'networks' | 'clock' | 'report'>;
  readonly #rate = new EndpointRate();
  /** The release whose networks were written last: most releases change no Node. */
  #learned: BundleFiles | undefined;

  constructor(ports: Pick<Ports, 'journal' | 'networks' | 'clock' | 'report'>) {
    this.#ports = ports;
  }

  /** Why a bundle by keys for endpoints is refused: it has endpoints outside of the networks of the signed release. */
  refuse({ state }: VersionedState): Refusal | undefined {
    const { journal, networks } = this.#ports;
    return journal.active && refuseOutside(journal.active.state, state, networks?.read() ?? []);
  }

  /** Remembers the networks of a confirmed release, or counts an update by keys for endpoints. */
  learn(files: BundleFiles, onlyEndpoints: boolean, before: Generation | undefined, outcome: Outcome): void {
    const { networks, clock, report } = this.#ports;
    if (!networks || (outcome.kind !== 'confirmed' && outcome.kind !== 'same')) return;
    if (onlyEndpoints) {
      if (before) this.#rate.changed(before.state, outcome.generation.state, clock.bootMs());
      return;
    }
    try {
      if (!this.#learned || changedFiles(this.#learned, files).some(isOfNode)) networks.write(networksOf(files));
      this.#learned = files;
    } catch (error) {
      this.#learned = undefined;
      report('networks-not-written', { because: messageOf(error) });
    }
  }

  /** The share of all Services, 0 to 1, whose endpoints were changed by keys for endpoints within the last hour. */
  get share(): number {
    const { journal, clock } = this.#ports;
    return journal.active ? this.#rate.share(journal.active.state, clock.bootMs()) : 0;
  }
}

const isOfNode = (path: string): boolean => readPath(path)?.kind === 'node';
