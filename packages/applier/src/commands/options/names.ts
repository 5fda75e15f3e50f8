import { readdirSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Names of the nodes in a bundle directory, for shell completion, from file names alone. Empty where the directory cannot be read.
 * @param dir default: the daemon's default directory
 */
export function nodesIn(dir = '/etc/sluice/rendered'): readonly string[] {
  try {
    return readdirSync(join(dir, 'nodes')).toSorted();
  } catch {
    return [];
  }
}
