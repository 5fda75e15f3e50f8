import { type BundleFiles, changedFiles, compareText, readPath, withFilesOf } from '@sluice/bundle';
import { limits } from '../limits.ts';
import type { Generation } from '../rollout/ports.ts';

/**
 * The files that the standing generation was made from, as far as this process knows them: a bundle that went in as a whole, or one that
 * went in around some Services. With them a bundle can go in for all Services but those that still have to wait for their last endpoint.
 */
export class StandingFiles {
  #known: { readonly files: BundleFiles; readonly number: number; readonly revision: number } | undefined;

  /** @param generation what stands with these files, and nothing else */
  stand(files: BundleFiles, { number, revision }: Generation): void {
    this.#known = { files, number, revision };
  }

  /**
   * What stands, with the files of those Services of an offered bundle that have the same addresses and ports.
   * @returns undefined when it is not known which files stand, when none of these Services differs, or when too many do
   */
  onto(offered: BundleFiles, standing: Generation): BundleFiles | undefined {
    const files = this.#of(standing);
    if (!files) return undefined;
    const changed = changedFiles(files, offered).filter((path) => serviceOf(path) !== undefined);
    if (new Set(changed.map(serviceOf)).size > limits.firstEndpointServicesMax) return undefined;
    const others = new Set(changed.filter((path) => !sameDoors(path, files, offered)).map(serviceOf));
    const taken = changed.filter((path) => !others.has(serviceOf(path)));
    return taken.length === 0 ? undefined : withFilesOf(files, offered, taken);
  }

  /**
   * An offered bundle with the files of some Services as they stand.
   * @param ways into these Services, such as `ipv4 tcp 10.96.0.10 80`
   * @returns undefined when it is not known which files these are
   */
  around(offered: BundleFiles, ways: readonly string[], standing: Generation): BundleFiles | undefined {
    const files = this.#of(standing);
    if (!files) return undefined;
    const changed = changedFiles(files, offered).filter((path) => serviceOf(path) !== undefined);
    const wanted = new Set(ways.flatMap(doorsOfWay));
    const awaited = new Set(
      changed.filter((path) => doorsIn(files.get(path) ?? '').some((door) => wanted.has(door))).map(serviceOf),
    );
    if (awaited.size === 0) return undefined;
    return withFilesOf(
      offered,
      files,
      changed.filter((path) => awaited.has(serviceOf(path))),
    );
  }

  #of({ number, revision }: Generation): BundleFiles | undefined {
    const known = this.#known;
    return known?.number === number && known.revision === revision ? known.files : undefined;
  }
}

/** Whether a Service has the same addresses and ports in both bundles, whatever leads from there. */
const sameDoors = (path: string, a: BundleFiles, b: BundleFiles): boolean => {
  const doors = (files: BundleFiles): string =>
    [...new Set(doorsIn(files.get(path) ?? ''))].toSorted(compareText).join();
  return a.has(path) && b.has(path) && doors(a) === doors(b);
};

/** `namespace/name`, whichever tool or profile a file is for. */
function serviceOf(path: string): string | undefined {
  const kind = readPath(path);
  return kind?.kind === 'service' ? `${kind.namespace}/${kind.name}` : undefined;
}

/** With the node port that it may be: in mode ipvs it has the address of a machine, of which no file knows. */
function doorsOfWay(way: string): readonly string[] {
  const [, , address = '', port = ''] = way.split(' ');
  return [`${address} ${port}`, `* ${port}`];
}

const doorLine = / (?:-d (\S+) )?--dport (\d+) | (?:-t|-u|--sctp-service) \[?([^\]\s]+?)\]?:(\d+)(?= |$)/gm;

/** The addresses and ports that a file leads to, `*` for those of machines. A hint and no more: what is made of it is admitted anew. */
function doorsIn(text: string): readonly string[] {
  return [...text.matchAll(doorLine)].map(([, address, port, virtual, at]) =>
    virtual === undefined ? `${address ?? '*'} ${port}` : `${virtual.startsWith('$') ? '*' : virtual} ${at}`,
  );
}
