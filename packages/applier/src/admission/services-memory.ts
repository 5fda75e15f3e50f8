import { readPath } from '@sluice/bundle';
import {
  differingFiles,
  inOnePiece,
  Layered,
  nftNames,
  PackedChains,
  type ResolvedVirtualFile,
} from '@sluice/netfilter';
import type { ServiceNames } from '../ports/node-state.ts';

/** Which frontends are of which Service, for one node after another bundle. Costs the files that changed. */
export class ServicesMemory {
  #files: readonly ResolvedVirtualFile[] = [];
  #services: ServiceNames = PackedChains.of(new Map());

  /**
   * @param files of a node in mode nftables that are read without problems
   * @returns the map of the last call if nothing differs from it; an equal list of names keeps its identity
   */
  of(files: readonly ResolvedVirtualFile[]): ServiceNames {
    const changes = differingFiles(this.#files, files).flatMap(({ path, after }) => {
      const kind = readPath(path);
      if (kind?.kind !== 'service') return [];
      const service = inOnePiece(`${kind.namespace}/${kind.name}`);
      return [[service, after && kept(this.#services.get(service), nftNames(after))] as const];
    });
    this.#files = files;
    this.#services = Layered.of(this.#services).with(changes);
    return this.#services;
  }
}

const kept = (old: readonly string[] | undefined, names: readonly string[]): readonly string[] =>
  old?.length === names.length && old.every((name, at) => name === names[at]) ? old : names;
