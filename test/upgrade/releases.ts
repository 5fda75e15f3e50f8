import { execFileSync } from 'node:child_process';
import { cpSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Makes a key that signs releases. @returns its file */
export function makeKey(dir: string, name: string): string {
  const file = join(dir, name);
  execFileSync('/usr/bin/ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', file]);
  return file;
}

/** The manifests of the folder that are in a release, by their names without extension. */
export type Manifests = readonly string[];

/** Makes releases of the manifests and signs them. */
export class Releases {
  /** The line of the key in `allowed_signers`. */
  readonly signer: string;
  readonly #sluice: string;
  readonly #manifests: string;
  readonly #dir: string;
  readonly #key: string;
  #count = 0;

  /**
   * @param sluice the program
   * @param manifests the folder that they are in
   * @param dir for the releases
   * @param key the file of the signing key
   */
  constructor(sluice: string, manifests: string, dir: string, key: string) {
    [this.#sluice, this.#manifests, this.#dir, this.#key] = [sluice, manifests, dir, key];
    const [type, half, name] = readFileSync(`${key}.pub`, 'utf8').trim().split(' ');
    this.signer = `${name} namespaces="sluice-release" ${type} ${half}\n`;
  }

  /** @returns its directory */
  make(manifests: Manifests, serial: number): string {
    const release = this.#place();
    const bundle = this.#render(manifests);
    this.#run('release', bundle, '--serial', String(serial), '--source', 'c'.repeat(40), '-o', release);
    return this.#signed(release);
  }

  /** An endpoint update of a release. @returns its directory */
  makeUpdate(of: string, manifests: Manifests): string {
    const update = this.#place();
    cpSync(of, update, { recursive: true });
    const bundle = this.#render(manifests);
    this.#run('release', bundle, '--endpoints', '--source', 'c'.repeat(40), '-o', update);
    return this.#signed(update);
  }

  #render(names: Manifests): string {
    const bundle = this.#place();
    const at = (name: string): string => join(this.#manifests, `${name}.yaml`);
    const files = ['nodes', ...names].flatMap((name) => ['-f', at(name)]);
    this.#run('render', ...files, '-c', at('sluice'), '-o', bundle);
    return bundle;
  }

  #signed(release: string): string {
    this.#run('sign', release, '--key', this.#key);
    return release;
  }

  #place(): string {
    return join(this.#dir, `made-${this.#count++}`);
  }

  #run(...args: readonly string[]): void {
    execFileSync(this.#sluice, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  }
}
