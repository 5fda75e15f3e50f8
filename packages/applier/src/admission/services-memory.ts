import { readPath } from '@sluice/bundle';
import { changedPlaces, Layered, nftNames, type ResolvedVirtualFile } from '@sluice/netfilter';
import type { ServiceNames } from '../ports/node-state.ts';

/** Which frontends are of which Service, for one node after another bundle. Costs the files that changed. */
export class ServicesMemory {
  #files: readonly ResolvedVirtualFile[] = [];
  #services: ServiceNames = new Map();

  /**
   * @param files of a node in mode nftables that are read without problems
   * @returns the map of the last call if nothing differs from it; an equal list of names keeps its identity
   */
  of(files: readonly ResolvedVirtualFile[]): ServiceNames {
    const before = this.#files;
    const changed = files.length === before.length ? changedPlaces(before, files) : undefined;
    const isSamePaths = changed?.every((at) => files[at]?.path === before[at]?.path) === true;
    const gone = isSamePaths ? [] : [...this.#services.keys()];
    const changes = new Map<string, readonly string[] | undefined>(gone.map((service) => [service, undefined]));
    for (const at of isSamePaths ? changed : files.keys()) {
      const { path, lines } = files[at] as ResolvedVirtualFile;
      const kind = readPath(path);
      if (kind?.kind !== 'service') continue;
      const service = `${kind.namespace}/${kind.name}`;
      changes.set(service, kept(this.#services.get(service), nftNames(lines)));
    }
    this.#files = files;
    this.#services = Layered.of(this.#services).with(changes);
    return this.#services;
  }
}

const kept = (old: readonly string[] | undefined, names: readonly string[]): readonly string[] =>
  old?.length === names.length && old.every((name, at) => name === names[at]) ? old : names;
