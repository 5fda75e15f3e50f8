import { type Json, type Path, parseJson } from '../../render/model/kube.ts';
import { contentStart, type SourceDocument } from './documents.ts';
import type { ParseFinding } from './finding.ts';
import { countJsonKeys, markJson, splitJson } from './json.ts';
import { loadLimits } from './limits.ts';
import { LineStarts } from './line-starts.ts';
import { Marks } from './marks.ts';
import { parseYaml, type YamlDocument } from './yaml.ts';

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

/** One document with its value and its parser, which is needed to find places. */
export interface ParsedDocument extends YamlDocument {
  readonly document: SourceDocument;
  readonly parser: 'json' | 'yaml';
}

/** Parses a document as JSON, else as YAML. Consecutive JSON values are separate documents. */
export function parseDocument(document: SourceDocument): ParsedDocument[] {
  const content = contentStart(document.text);
  const first = document.text.charAt(content);
  return first === '{' || first === '[' ? parseFlow(document, content) : [parsedYaml(document)];
}

function parsedYaml(document: SourceDocument): ParsedDocument {
  return { document, parser: 'yaml', ...parseYaml(document.text) };
}

/** JSON, consecutive JSON values as `kubectl` accepts them, or YAML in flow style such as KYAML. */
function parseFlow(document: SourceDocument, content: number): ParsedDocument[] {
  const text = document.text.slice(content);
  const value = parseJson(text);
  if (value !== undefined)
    return [parsedJson(part(document, new LineStarts(document), content, document.text.length), value)];
  const [first, ...others] = splitJson(document.text, content);
  // Two consecutive values are never valid YAML, so the first one decides.
  const isStream =
    first !== undefined && others.length > 0 && parseJson(document.text.slice(first.from, first.to)) !== undefined;
  if (!isStream) return [parsedYaml(document)];
  const starts = [first.from, ...others.map((other) => other.from), document.text.length];
  const lines = new LineStarts(document);
  return starts
    .slice(0, -1)
    .flatMap((from, index) => parseFlow(part(document, lines, from, starts[index + 1] ?? from), 0));
}

function parsedJson(document: SourceDocument, value: Json): ParsedDocument {
  const errors: ParseFinding[] = checkJson(value, document.text);
  return { document, parser: 'json', errors, doubts: [], ...(errors.length === 0 ? { value } : {}) };
}

/** A part of a document as a separate document. */
function part(document: SourceDocument, lines: LineStarts, from: number, to: number): SourceDocument {
  return { ...lines.place(from), text: document.text.slice(from, to) };
}

/** Finds the offsets of all values of a document. Parses it again, so only for documents with a problem. */
export function marksOf({ document, parser }: ParsedDocument): Marks {
  const marks = new Marks();
  if (parser === 'json') markJson(document.text, 0, marks);
  else parseYaml(document.text, marks);
  return marks;
}
