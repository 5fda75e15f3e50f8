import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeKey, programPath } from '@sluice/testing';
import { execa } from 'execa';
import { sluiceCommand, type SystemPlace } from '../systems.ts';

const waves = {
  apiVersion: 'sluice.dev/v1alpha1',
  kind: 'Waves',
  waves: [
    { name: 'canary', nodes: ['node-1'] },
    { name: 'others', nodes: 'rest' },
  ],
};
/** No repository is read. */
const commit = '0123456789abcdef0123456789abcdef01234567';

/** Releases of a cluster, rendered and signed on the workstation, in folders that pods of its nodes mount. */
export class Releases {
  /** The newest release is in its folder `release`. */
  readonly origin: string;
  /** Receipts of nodes. */
  readonly store: string;
  /** Lines of `allowed_signers`. */
  readonly signers: string;
  /** Has them, keys, and files of the commands. */
  readonly work: string;
  readonly #place: SystemPlace;

  private constructor(place: SystemPlace, work: string, signers: string) {
    this.#place = place;
    this.work = work;
    this.signers = signers;
    [this.origin, this.store] = [join(work, 'origin'), join(work, 'store')];
  }

  /** Makes a key for releases, and one for waves. */
  static async start(place: SystemPlace): Promise<Releases> {
    const work = join(place.folder, 'releases');
    mkdirSync(join(work, 'origin'), { recursive: true });
    mkdirSync(join(work, 'store'));
    // The user of the fetch process writes there.
    await execa('chmod', ['0777', join(work, 'store')]);
    writeFileSync(join(work, 'waves.yaml'), JSON.stringify(waves));
    const lines = ['release', 'wave'].map(
      (name) => `${name}@example.com namespaces="sluice-${name}" ${makeKey(join(work, `${name}-key`))}\n`,
    );
    return new Releases(place, work, lines.join(''));
  }

  #sluice(...args: readonly string[]): Promise<string> {
    return this.#place.control.run([process.execPath, programPath('sluice'), ...args], { timeoutMs: 60_000 });
  }

  /** Renders the cluster, and places a signed release of it. @param isInWaves of which the first one is opened then */
  async publish(serial: number, isInWaves: boolean): Promise<void> {
    const [rendered, release] = [join(this.work, 'rendered'), join(this.work, 'release')];
    const render = sluiceCommand(this.#place, ['render', '--from-cluster', '-o', rendered]);
    await this.#place.control.run(render, { timeoutMs: 60_000 });
    const chosen = isInWaves ? ['--wave', join(this.work, 'waves.yaml')] : [];
    await this.#sluice('release', rendered, '--serial', `${serial}`, '--source', commit, ...chosen, '-o', release);
    await this.#sluice('sign', release, '--key', join(this.work, 'release-key'));
    if (isInWaves) await this.#sluice('promote', release, '--key', join(this.work, 'wave-key'));
    await this.#place.control.run(['cp', '-r', release, join(this.origin, 'next')]);
    await this.#place.control.run(['sh', '-ec', 'cd "$0"; rm -rf release; mv next release', this.origin]);
  }

  /** Trusts receipts of these keys. @param keys lines of `allowed_receipts` */
  allow(keys: string): void {
    writeFileSync(join(this.work, 'allowed_receipts'), keys);
  }

  /** Opens the next wave, by the receipts of nodes. @returns whether they allow it */
  async promote(): Promise<boolean> {
    const release = join(this.work, 'release');
    const allowed = join(this.work, 'allowed_receipts');
    const by = ['--from', this.store, '--allowed-receipts', allowed, '--key', join(this.work, 'wave-key')];
    const command = [process.execPath, programPath('sluice'), 'promote', release, ...by];
    if ((await this.#place.control.exec(command)).exitCode !== 0) return false;
    const copy = 'cp "$0"/waves-open.yaml* "$1/release"';
    await this.#place.control.run(['sh', '-ec', copy, release, this.origin]);
    return true;
  }
}
