import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type BundleFiles, readPath } from '@sluice/bundle';

/** Names in a bundle directory, sorted; empty for another directory. */
interface BundleNames {
  nodes(dir: string): readonly string[];
  /** As `namespace/name`. */
  services(dir: string): readonly string[];
}

/** Uses only names of folders and files: completion must not read 10,000 files. */
export const bundleNames: BundleNames = {
  nodes: (dir) => list(join(dir, 'nodes')),
  services(dir) {
    const found = new Set<string>();
    for (const profile of list(join(dir, 'profiles'))) {
      const services = join(dir, 'profiles', profile, 'services');
      for (const namespace of list(services)) {
        for (const file of list(join(services, namespace))) found.add(`${namespace}/${file.split('.', 1)[0]}`);
      }
    }
    return [...found].toSorted();
  },
};

/** Empty for an unreadable directory: completion cannot report errors. */
function list(dir: string): readonly string[] {
  try {
    return readdirSync(dir).toSorted();
  } catch {
    return [];
  }
}

/** The Services of a bundle that was read, as `namespace/name`, sorted. */
export function servicesIn(files: BundleFiles): readonly string[] {
  const paths = [...files.keys()].map(readPath).filter((path) => path?.kind === 'service');
  return [...new Set(paths.map(({ namespace, name }) => `${namespace}/${name}`))].toSorted();
}
