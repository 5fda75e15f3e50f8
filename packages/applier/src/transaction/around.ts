import { type BundleFiles, changedFiles, readPath, withFilesOf } from '@sluice/bundle';
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
   * An offered bundle with the files of some Services as they stand.
   * @param ways into these Services, such as `ipv4 tcp 10.96.0.10 80`
   * @returns undefined when it is not known which files these are
   */
  around(offered: BundleFiles, ways: readonly string[], standing: Generation): BundleFiles | undefined {
    const known = this.#known;
    if (known?.number !== standing.number || known.revision !== standing.revision) return undefined;
    const { files } = known;
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
}

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
