import type { Json, Path } from '../../render/model/kube.ts';
import type { ParseFinding } from './finding.ts';
import { countJsonKeys, markJson } from './json.ts';
import { loadLimits } from './limits.ts';
import { Marks } from './marks.ts';

/**
 * Finds what `JSON.parse` accepts and Sluice refuses: nesting and maps beyond the limits, and duplicate keys, of which it silently drops
 * the first. Duplicate keys are searched only if the text has more keys than the value.
 */
export function checkJson(value: Json, text: string): ParseFinding[] {
  const size: JsonSize = { keys: 0 };
  const tooLarge = measure(value, 0, size);
  if (tooLarge !== undefined)
    return [finding('INPUT_TOO_LARGE', 0, [], tooLarge, 'Objects that Sluice reads are never that large')];
  return size.keys === countJsonKeys(text) ? [] : duplicateKeys(text);
}

interface JsonSize {
  keys: number;
}

/** Counts the keys; returns a message when a limit is exceeded. */
function measure(value: Json, depth: number, size: JsonSize): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (depth >= loadLimits.depthMax) {
    return `Cannot read the document: its maps and lists are nested deeper than ${loadLimits.depthMax}`;
  }
  const isList = Array.isArray(value);
  const children: readonly Json[] = isList ? value : Object.values(value);
  if (!isList) {
    size.keys += children.length;
    if (children.length > loadLimits.keysPerMapMax) {
      return `Cannot read the map: it has ${children.length} keys, and the limit is ${loadLimits.keysPerMapMax}`;
    }
  }
  for (const child of children) {
    const tooLarge = measure(child, depth + 1, size);
    if (tooLarge !== undefined) return tooLarge;
  }
  return undefined;
}

function duplicateKeys(text: string): ParseFinding[] {
  const findings: ParseFinding[] = [];
  markJson(text, 0, new Marks(), (key, offset, path) => {
    if (findings.length === loadLimits.errorsPerDocumentMax) return;
    const message = `Cannot read the map: it has the key "${key}" twice`;
    findings.push(
      finding(
        'YAML_DUPLICATE_KEY',
        offset,
        path,
        message,
        'Remove one of the two: parsers disagree on which one counts',
      ),
    );
  });
  return findings;
}

function finding(code: ParseFinding['code'], offset: number, path: Path, message: string, hint: string): ParseFinding {
  return { code, offset, path, message, hint };
}
