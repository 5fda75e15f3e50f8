import {
  type BundleFiles,
  changedFiles,
  compareText,
  differing,
  type Family,
  readPath,
  type TableProgram,
  withFilesOf,
} from '@sluice/bundle';
import { limits } from '../limits.ts';
import type { Generation } from '../rollout/ports.ts';
import { familiesOf, type NodeState, tableOf } from '../rollout/state.ts';
import { sameReal } from './overlay-servers.ts';
import { isService, withoutTag } from './service.ts';

/**
 * The files that the standing generation was made from, as far as this process knows them: a bundle that went in as a whole, or one that
 * went in around some Services. With them a bundle can go in for all Services but those that still have to wait for their last endpoint.
 *
 * What stands may have newer endpoints than these files; whoever puts some of them back in asks `wouldRevert` what becomes of those.
 */
export class ActiveFiles {
  #known: { readonly files: BundleFiles; readonly number: number; readonly state: NodeState } | undefined;

  /** @param generation what stands with these files, and nothing else */
  activate(files: BundleFiles, { number, state }: Generation): void {
    this.#known = { files, number, state };
  }

  /** Whether a Service would have the endpoints again that it had with these files, though it got others since. */
  wouldRevert(desired: NodeState, active: Generation): boolean {
    return this.#known !== undefined && isStale(this.#known.state, active.state, desired);
  }

  /**
   * What stands, with the files of those Services of an offered bundle that have the same addresses and ports.
   * @param isWanted by the text of an offered file
   * @returns undefined when it is not known which files stand, when none of these Services is wanted, or when too many differ
   */
  withServicesOf(
    offered: BundleFiles,
    active: Generation,
    isWanted: (text: string) => boolean,
  ): BundleFiles | undefined {
    const files = this.#of(active);
    if (!files) return undefined;
    const changed = changedFiles(files, offered).filter((path) => serviceOf(path) !== undefined);
    if (new Set(changed.map(serviceOf)).size > limits.firstEndpointServicesMax) return undefined;
    const others = new Set(changed.filter((path) => !sameFrontends(path, files, offered)).map(serviceOf));
    const taken = changed.filter((path) => !others.has(serviceOf(path)));
    return taken.some((path) => isWanted(offered.get(path) ?? '')) ? withFilesOf(files, offered, taken) : undefined;
  }

  /**
   * An offered bundle with the files of some Services as they stand.
   * @param ways into these Services, such as `ipv4 tcp 10.96.0.10 80`
   * @returns undefined when it is not known which files these are
   */
  withoutPending(offered: BundleFiles, ways: readonly string[], active: Generation): BundleFiles | undefined {
    const files = this.#of(active);
    if (!files) return undefined;
    const changed = changedFiles(files, offered).filter((path) => serviceOf(path) !== undefined);
    const wanted = new Set(ways.flatMap(frontendsOfWay));
    const awaited = new Set(
      changed
        .filter((path) => frontendsIn(files.get(path) ?? '').some((frontend) => wanted.has(frontend)))
        .map(serviceOf),
    );
    if (awaited.size === 0) return undefined;
    return withFilesOf(
      offered,
      files,
      changed.filter((path) => awaited.has(serviceOf(path))),
    );
  }

  #of({ number }: Generation): BundleFiles | undefined {
    return this.#known?.number === number ? this.#known.files : undefined;
  }
}

/**
 * Whether a file may be that of a Service which comes to its first endpoint by a change: its rules are among those that are new, or it
 * has a virtual server that gets a first real one.
 */
export function mayGetFirstEndpoint(from: NodeState, desired: NodeState): (text: string) => boolean {
  const hashes = familiesOf(desired).flatMap((family) =>
    newServices(tableOf(from, family, 'nat'), tableOf(desired, family, 'nat')),
  );
  const frontends = new Set<string>();
  for (const [key, { family, protocol, address, port, real }] of desired.ipvs?.virtualServers ?? []) {
    if (real.size === 0 || from.ipvs?.virtualServers.get(key)?.real.size !== 0) continue;
    for (const frontend of frontendsOfWay(`${family} ${protocol} ${address} ${port}`)) frontends.add(frontend);
  }
  return (text) =>
    hashes.some((hash) => text.includes(hash)) ||
    (frontends.size > 0 && frontendsIn(text).some((frontend) => frontends.has(frontend)));
}

/** The ends of the names of chains, by which their file is found. */
function newServices(from: TableProgram, desired: TableProgram): readonly string[] {
  const changed = differing(from.chains, desired.chains).filter(isService);
  const had = new Set(changed.filter((name) => from.chains.has(name)).map(withoutTag));
  return changed
    .filter((name) => desired.chains.has(name) && !had.has(withoutTag(name)))
    .map((name) => withoutTag(name).slice(-16));
}

/** Whether a Service is in `desired` as it was in `known`, though it is otherwise in `active`. */
function isStale(known: NodeState, active: NodeState, desired: NodeState): boolean {
  const text = (state: NodeState, family: Family, name: string): string | undefined =>
    tableOf(state, family, 'nat').chains.get(name)?.join('\n');
  const inRules = familiesOf(known).some((family) =>
    differing(tableOf(known, family, 'nat').chains, tableOf(active, family, 'nat').chains).some((name) => {
      const old = isService(name) ? text(known, family, name) : undefined;
      return old !== undefined && text(active, family, name) !== old && text(desired, family, name) === old;
    }),
  );
  if (inRules || !known.ipvs || known.ipvs === active.ipvs) return inRules;
  return [...known.ipvs.virtualServers].some(([key, old]) => {
    const [now, next] = [active.ipvs, desired.ipvs].map((ipvs) => ipvs?.virtualServers.get(key));
    return now && next && !sameReal(old, now) && sameReal(old, next);
  });
}

/** Whether a Service has the same addresses and ports in both bundles, whatever leads from there. */
const sameFrontends = (path: string, a: BundleFiles, b: BundleFiles): boolean => {
  const frontends = (files: BundleFiles): string =>
    [...new Set(frontendsIn(files.get(path) ?? ''))].toSorted(compareText).join();
  return a.has(path) && b.has(path) && frontends(a) === frontends(b);
};

/** `namespace/name`, whichever tool or profile a file is for. */
function serviceOf(path: string): string | undefined {
  const kind = readPath(path);
  return kind?.kind === 'service' ? `${kind.namespace}/${kind.name}` : undefined;
}

/** With the node port that it may be: in mode ipvs it has the address of a machine, of which no file knows. */
function frontendsOfWay(way: string): readonly string[] {
  const [, , address = '', port = ''] = way.split(' ');
  return [`${address} ${port}`, `* ${port}`];
}

const frontendLine = / (?:-d (\S+) )?--dport (\d+) | (?:-t|-u|--sctp-service) \[?([^\]\s]+?)\]?:(\d+)(?= |$)/gm;

/** The addresses and ports that a file leads to, `*` for those of machines. A hint and no more: what is made of it is admitted anew. */
function frontendsIn(text: string): readonly string[] {
  return [...text.matchAll(frontendLine)].map(([, address, port, virtual, at]) =>
    virtual === undefined ? `${address ?? '*'} ${port}` : `${virtual.startsWith('$') ? '*' : virtual} ${at}`,
  );
}
