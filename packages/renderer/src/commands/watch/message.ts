import { compareText } from '@sluice/bundle';

/** So many names stand in the first line of a message; all of them below it. */
const namesMax = 3;
const namesInAllMax = 200;

/**
 * The message of a commit, which names what changed: `watch: Service shop/api, Service shop/web and 3 more`, and all of them below.
 * @param about such as `Service shop/web`; nothing is a directory that is brought up to date
 */
export function messageOf(about: readonly string[]): string {
  const sorted = about.toSorted(compareText);
  const more = sorted.length - namesMax;
  const shown = sorted.slice(0, namesMax).join(', ');
  const head = sorted.length === 0 ? 'the cluster as it is' : more > 0 ? `${shown} and ${more} more` : shown;
  if (more <= 0) return `watch: ${head}`;
  const listed = sorted.slice(0, namesInAllMax).join('\n');
  return `watch: ${head}\n\n${listed}${sorted.length > namesInAllMax ? '\n…' : ''}`;
}
