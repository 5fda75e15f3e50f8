import { readdirSync } from 'node:fs';
import { join } from 'node:path';

/** Names that a bundle directory holds, sorted. A directory that is no bundle holds none. */
export interface BundleNames {
  nodes(dir: string): readonly string[];
  /** As `namespace/name`. */
  services(dir: string): readonly string[];
}

/** Read from the names of folders and files alone: a key press must not wait for 10,000 files to be read. */
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

/** Nothing where there is nothing to read: completion has nobody to complain to. */
function list(dir: string): readonly string[] {
  try {
    return readdirSync(dir).toSorted();
  } catch {
    return [];
  }
}
