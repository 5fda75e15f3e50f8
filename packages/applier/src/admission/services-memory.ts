import { readPath } from '@sluice/bundle';
import {
  differingFiles,
  inOnePiece,
  type IpvsHost,
  Layered,
  nftNames,
  type ResolvedVirtual,
  type ResolvedVirtualFile,
  serversByFile,
} from '@sluice/netfilter';
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
    const changes = differingFiles(this.#files, files).flatMap(({ path, after }) => {
      const service = serviceOf(path);
      if (service === undefined) return [];
      return [[service, after && kept(this.#services.get(service), nftNames(after))] as const];
    });
    this.#files = files;
    this.#services = Layered.of(this.#services).with(changes);
    return this.#services;
  }
}

/** Which virtual servers are of which Service, for a node in mode ipvs: files name them, and nothing in the kernel does. */
export function servicesOfServers(files: ResolvedVirtual, host: IpvsHost): ServiceNames {
  const named = [...serversByFile(files, host)].flatMap(([path, servers]) => {
    const service = serviceOf(path);
    return service === undefined ? [] : [[service, servers] as const];
  });
  return new Map(named);
}

/** `shop/web` of its file. */
function serviceOf(path: string): string | undefined {
  const of = readPath(path);
  return of?.kind === 'service' ? inOnePiece(`${of.namespace}/${of.name}`) : undefined;
}

const kept = (old: readonly string[] | undefined, names: readonly string[]): readonly string[] =>
  old?.length === names.length && old.every((name, at) => name === names[at]) ? old : names;
