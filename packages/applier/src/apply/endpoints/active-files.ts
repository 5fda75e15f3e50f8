import { type BundleFiles, changedFiles, withFilesOf, serviceOf } from '@sluice/bundle';
import { anyAddress, compareText, planeOf } from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import type { Generation } from '../../ports/journal.ts';
import type { NodeState } from '../../ports/node-state.ts';

/**
 * The files from which the active generation was made, as far as this process knows them: those of a whole bundle, or of a bundle without
 * some Services. With them a bundle can be split: some Services keep their present files, for example until the last-endpoint delay ends.
 *
 * The active generation may have newer endpoints than these files. Before old files are used again, `wouldRevert` checks for that.
 */
export class ActiveFiles {
  #known: { readonly files: BundleFiles; readonly number: number; readonly state: NodeState } | undefined;

  /** @param generation made from exactly these files */
  activate(files: BundleFiles, { number, state }: Generation): void {
    this.#known = { files, number, state };
  }

  /** Whether a Service would return to its endpoints of these files, though it has got newer ones since. */
  wouldRevert(desired: NodeState, active: Generation): boolean {
    return this.#known !== undefined && isStale(this.#known.state, active.state, desired);
  }

  /**
   * The active files, with the offered files of those Services whose addresses and ports are unchanged.
   * @param isWanted asked for the text of each changed file
   * @returns undefined if the active files are not known, if no such file is wanted, or if more than
   *   `limits.firstEndpointServicesMax` Services differ
   */
  withServicesOf(
    offered: BundleFiles,
    active: Generation,
    isWanted: (text: string) => boolean,
  ): BundleFiles | undefined {
    const files = this.#of(active);
    if (!files) return undefined;
    const changed = changedFiles(files, offered).filter((path) => serviceOf(path) !== '');
    if (new Set(changed.map(serviceOf)).size > limits.firstEndpointServicesMax) return undefined;
    const moved = new Set(changed.filter((path) => !sameFrontends(path, files, offered)).map(serviceOf));
    const taken = changed.filter((path) => !moved.has(serviceOf(path)));
    return taken.some((path) => isWanted(offered.get(path) ?? '')) ? withFilesOf(files, offered, taken) : undefined;
  }

  /**
   * The offered bundle, with the active files of some Services.
   * @param frontends of these Services, such as `ipv4 tcp 10.96.0.10 80`
   * @returns undefined if the active files are not known
   */
  withoutPending(offered: BundleFiles, frontends: readonly string[], active: Generation): BundleFiles | undefined {
    const files = this.#of(active);
    if (!files) return undefined;
    const changed = changedFiles(files, offered).filter((path) => serviceOf(path) !== '');
    const wanted = new Set(frontends.flatMap(frontendKeys));
    const waiting = new Set(
      changed
        .filter((path) => frontendsIn(files.get(path) ?? '').some((frontend) => wanted.has(frontend)))
        .map(serviceOf),
    );
    if (waiting.size === 0) return undefined;
    return withFilesOf(
      offered,
      files,
      changed.filter((path) => waiting.has(serviceOf(path))),
    );
  }

  /**
   * The offered bundle, with the active files of Services that it lacks, and of those that it has without endpoints. Where another Service has
   * an address or a node port of one that it lacks by now, that one stays away.
   * @param emptied frontends of Services without endpoints
   * @returns undefined if the active files are not known, or if no Service is lacking
   */
  withLost(offered: BundleFiles, emptied: readonly string[], active: Generation): BundleFiles | undefined {
    const files = this.#of(active);
    if (!files) return undefined;
    const changed = changedFiles(files, offered).filter((path) => serviceOf(path) !== '');
    const [there, gone] = [changed.filter((path) => offered.has(path)), changed.filter((path) => !offered.has(path))];
    const taken = new Set(there.flatMap((path) => placesIn(offered.get(path) ?? '')));
    const stays = new Set([...offered.keys()].map(serviceOf));
    const away = new Set(
      gone.filter((path) => placesIn(files.get(path) ?? '').some((one) => taken.has(one))).map(serviceOf),
    );
    const lost = gone.filter((path) => !stays.has(serviceOf(path)) && !away.has(serviceOf(path)));
    const kept = this.withoutPending(offered, emptied, active);
    if (lost.length === 0) return kept;
    return withFilesOf(kept ?? offered, files, lost);
  }

  #of({ number }: Generation): BundleFiles | undefined {
    return this.#known?.number === number ? this.#known.files : undefined;
  }
}

/**
 * Tells files that may belong to a Service which gets its first endpoint by a change: those with chains that are new, or with a virtual
 * server that gets its first real server.
 */
export function mayGetFirstEndpoint(from: NodeState, desired: NodeState): (text: string) => boolean {
  const plane = planeOf(from);
  if (plane !== planeOf(desired)) return () => false;
  const { changed, added } = plane.compare(from, desired);
  const hashes = added.flatMap(({ fileMark }) => fileMark ?? []);
  const first = changed.filter(({ before, after }) => before?.endpoints.size === 0 && (after?.endpoints.size ?? 0) > 0);
  const frontends = new Set(first.flatMap(({ before }) => before?.frontends.flatMap(frontendKeys) ?? []));
  return (text) =>
    hashes.some((hash) => text.includes(hash)) ||
    (frontends.size > 0 && frontendsIn(text).some((frontend) => frontends.has(frontend)));
}

/** Whether a Service in `desired` equals that in `known`, but not that in `active`. */
function isStale(known: NodeState, active: NodeState, desired: NodeState): boolean {
  const plane = planeOf(known);
  if (plane !== planeOf(active) || plane !== planeOf(desired)) return false;
  const newer = plane.compare(known, active);
  const stale = [...newer.changed, ...newer.removed];
  if (stale.length === 0) return false;
  const { changed, removed } = plane.compare(known, desired);
  const differ = new Set([...changed, ...removed].map(({ key }) => key));
  return stale.some(({ key }) => !differ.has(key));
}

/** Whether a file has the same frontends in both bundles. */
const sameFrontends = (path: string, a: BundleFiles, b: BundleFiles): boolean => {
  const frontends = (files: BundleFiles): string =>
    [...new Set(frontendsIn(files.get(path) ?? ''))].toSorted(compareText).join();
  return a.has(path) && b.has(path) && frontends(a) === frontends(b);
};

/** The keys of a frontend in files. It may be a node port, which in mode ipvs has an address of the node, and in files has none. */
function frontendKeys(frontend: string): readonly string[] {
  const [, , address = '', port = ''] = frontend.split(' ');
  return [`${address} ${port}`, `* ${port}`];
}

const frontendLine =
  / (?:-d (\S+) )?--dport (\d+) | (?:-t|-u|--sctp-service) \[?([^\]\s]+?)\]?:(\d+)(?= |$)| ([\da-f.:]+) \. (?:tcp|udp|sctp) \. (\d+)/gm;

const anyAddresses: readonly string[] = Object.values(anyAddress);

/** The frontends in a file, with `*` for the node's addresses. Only a hint: the bundle that is made with it is admitted again. */
function frontendsIn(text: string): readonly string[] {
  return [...text.matchAll(frontendLine)].map(([, address, port, virtual, at, key, keyPort]) => {
    if (key !== undefined) return `${anyAddresses.includes(key) ? '*' : key} ${keyPort}`;
    return virtual === undefined ? `${address ?? '*'} ${port}` : `${virtual.startsWith('$') ? '*' : virtual} ${at}`;
  });
}

/** The addresses of Services in a file, whatever their ports, and the ports of nodes. */
const placesIn = (text: string): readonly string[] =>
  frontendsIn(text).map((frontend) => (frontend.startsWith('*') ? frontend : frontend.slice(0, frontend.indexOf(' '))));
