import type { Place } from '@sluice/bundle';
import type { Locate } from './text.ts';

/**
 * Turns positions inside a string of a YAML file into positions of that file.
 * Exact for a literal block scalar (`config.conf: |`), which is how people and kubectl write a file inside a ConfigMap.
 * Everything else, such as a quoted string full of `\n`, has no positions inside that a person could find: it answers with the
 * string's own place.
 * @param place of the string's value: the `|`
 * @param text of the whole file; without it every answer is `place`
 */
export function locateInside(place: Place, text: string | undefined): Locate {
  const here: Locate = () => place;
  const lines = text?.split(/\r\n|\n/) ?? [];
  const header = /^\|([1-9]?)[-+]?([1-9]?)[-+]?\s*(?:#.*)?$/.exec(
    (lines[place.line - 1] ?? '').slice(place.column - 1),
  );
  if (!header) return here;
  const first = lines.slice(place.line).find((line) => line.trim() !== '');
  const indent = /^ */.exec(first ?? '')?.[0].length ?? 0;
  // An indentation indicator counts from the parent's indentation, which the lines alone do not show.
  if (header[1] !== '' || header[2] !== '') return here;
  return (line, column) => ({ file: place.file, line: place.line + line, column: column + indent });
}
