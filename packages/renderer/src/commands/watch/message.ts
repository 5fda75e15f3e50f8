import { type BundleFiles, nodesOf, profileIn, readPath } from '@sluice/bundle';
import { compareText, plural } from '@sluice/netfilter';

/** The maximum number of names in the first line of a message. */
const namesMax = 3;
const namesInAllMax = 200;

/**
 * The message of a commit, which names the changed objects: `watch: Service shop/api, Service shop/web and 3 more`, and all of them
 * below.
 * @param about such as `Service shop/web`; empty for a directory that is brought up to date
 */
export function messageOf(about: readonly string[]): string {
  const sorted = about.toSorted(compareText);
  const more = sorted.length - namesMax;
  const shown = sorted.slice(0, namesMax).join(', ');
  const head = sorted.length === 0 ? 'current state of the cluster' : more > 0 ? `${shown} and ${more} more` : shown;
  if (more <= 0) return `watch: ${head}`;
  const listed = sorted.slice(0, namesInAllMax).join('\n');
  return `watch: ${head}\n\n${listed}${sorted.length > namesInAllMax ? '\n…' : ''}`;
}

/**
 * The message of the first commit of a bundle: `sluice: initial render of 14 Services for 3 nodes`. Everything is new, so it counts
 * instead of naming objects.
 */
export function firstMessageOf(files: BundleFiles): string {
  const services = new Set([...files.keys()].filter((path) => readPath(path)?.kind === 'service').flatMap(thingOf));
  return `sluice: initial render of ${plural(services.size, 'Service')} for ${plural(nodesOf(files).length, 'node')}`;
}

/** The objects of files, such as `Service shop/web`, each once: after a full read only the files show what changed. */
export function thingsOf(paths: readonly string[]): readonly string[] {
  return [...new Set(paths.flatMap(thingOf))].toSorted(compareText);
}

function thingOf(path: string): readonly string[] {
  const what = readPath(path);
  if (what?.kind === 'service') return [`Service ${what.namespace}/${what.name}`];
  if (what?.kind === 'node') return [`Node ${what.node}`];
  const profile = profileIn(path);
  return profile === '' ? [] : [`Profile ${profile}`];
}
