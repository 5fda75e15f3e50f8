import type { BundleFiles } from '@sluice/bundle';
import type { Generation } from './rollout/ports.ts';

/** What the daemon is told of endpoints that run ahead of their bundle. */
export interface EarlyEndpointsWatchParts {
  readonly active: () => Generation | undefined;
  /** Called with the files of a bundle of which endpoints came to what stands, though the bundle itself is not in, or not yet. */
  readonly earlyEndpoints: (files: BundleFiles) => void;
}

/** Which revision of which generation stands; undefined: none. */
type Revision = Partial<Pick<Generation, 'number' | 'revision'>>;

/** Finds out when endpoints of a bundle come to what stands before the rest of it does, or without it: as a trial may last long, at once. */
export class EarlyEndpointsWatch {
  readonly #parts: EarlyEndpointsWatchParts;
  /** While a bundle is put in: the newest files that the reconciler got, and what stood when it was looked at last. */
  #offered: { readonly files: BundleFiles; readonly active: Revision } | undefined;
  /** The files of which endpoints came to what stands while the bundle at hand was put in. */
  #earlyEndpoints: BundleFiles | undefined;
  #is = false;

  constructor(parts: EarlyEndpointsWatchParts) {
    this.#parts = parts;
  }

  /** Whether endpoints of bundles that are not in came to what stands. */
  get is(): boolean {
    return this.#is;
  }

  /** A bundle is put in. */
  begin(files: BundleFiles): void {
    this.#earlyEndpoints = undefined;
    this.offer(files);
  }

  /** The reconciler gets newer files. */
  offer(files: BundleFiles): void {
    this.#offered = { files, active: this.#active };
  }

  /** Something may have changed. */
  look(): void {
    if (!this.#offered) return;
    const { files, active: before } = this.#offered;
    const now = this.#active;
    this.#offered = { files, active: now };
    // Another generation is a release that is in: that is told when it has ended.
    if (now.number === before.number && now.revision !== before.revision) this.#tell(files);
  }

  /** However it ended. */
  end(): void {
    this.look();
    this.#offered = undefined;
  }

  /** The bundle is in. A newer one may have brought its endpoints during the trial. */
  isIn(files: BundleFiles): void {
    this.#is = false;
    if (this.#earlyEndpoints && this.#earlyEndpoints !== files) this.#tell(this.#earlyEndpoints);
  }

  get #active(): Revision {
    const { number, revision } = this.#parts.active() ?? {};
    return number === undefined || revision === undefined ? {} : { number, revision };
  }

  #tell(files: BundleFiles): void {
    this.#earlyEndpoints = files;
    this.#is = true;
    this.#parts.earlyEndpoints(files);
  }
}
