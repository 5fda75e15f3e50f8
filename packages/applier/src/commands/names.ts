import { readdirSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Names of the nodes in a bundle directory, for completion: told by names of files alone. None where nothing can be read.
 * @param dir left out: where the daemon usually looks
 */
export function nodesIn(dir = '/etc/sluice/rendered'): readonly string[] {
  try {
    return readdirSync(join(dir, 'nodes')).toSorted();
  } catch {
    return [];
  }
}
