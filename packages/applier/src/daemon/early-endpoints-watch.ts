import type { BundleFiles } from '@sluice/bundle';
import type { Generation } from '../ports/journal.ts';
import type { DaemonDependencies } from './dependencies.ts';

type EarlyEndpointsWatchDependencies = Pick<DaemonDependencies, 'journal' | 'earlyEndpoints'>;

/** The revision of the active generation; empty: none. */
type Revision = Partial<Pick<Generation, 'number' | 'revision'>>;

/**
 * Detects early endpoint syncs: endpoints of a bundle that reach the active generation before, or without, the rest of it. Probation may
 * last long, so it reports them at once.
 */
export class EarlyEndpointsWatch {
  readonly #parts: EarlyEndpointsWatchDependencies;
  /** While a bundle is applied: the newest files that the reconciler got, and the active revision at the last look. */
  #offered: { readonly files: BundleFiles; readonly active: Revision } | undefined;
  /** The files whose endpoints reached the active generation while the current bundle was applied. */
  #earlyEndpoints: BundleFiles | undefined;
  /** Whether endpoints of a bundle that is not applied are in the active generation. */
  is = false;

  constructor(parts: EarlyEndpointsWatchDependencies) {
    this.#parts = parts;
  }

  /** A bundle is being applied. */
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
    // A new generation is a release, which is reported when it has ended.
    if (now.number === before.number && now.revision !== before.revision) this.#report(files);
  }

  /** The change ended, with any outcome. */
  end(): void {
    this.look();
    this.#offered = undefined;
  }

  /** The bundle is applied. The endpoints of a newer one may have been synced during its probation. */
  isIn(files: BundleFiles): void {
    this.is = false;
    if (this.#earlyEndpoints && this.#earlyEndpoints !== files) this.#report(this.#earlyEndpoints);
  }

  get #active(): Revision {
    const { number, revision } = this.#parts.journal.active ?? {};
    return number === undefined || revision === undefined ? {} : { number, revision };
  }

  #report(files: BundleFiles): void {
    this.#earlyEndpoints = files;
    this.is = true;
    this.#parts.earlyEndpoints?.(files);
  }
}
