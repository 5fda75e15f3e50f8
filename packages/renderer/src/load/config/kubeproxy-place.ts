import type { Place } from '@sluice/netfilter';
import type { Locate } from './text.ts';

/**
 * Maps positions inside a string of a YAML file to positions in that file.
 * Exact for a literal block scalar (`config.conf: |`), the usual form of a file inside a ConfigMap. For other strings, such as a quoted
 * one with `\n`, it returns the place of the string.
 * @param place of the string's value: the `|`
 * @param text of the whole file; without it every result is `place`
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
