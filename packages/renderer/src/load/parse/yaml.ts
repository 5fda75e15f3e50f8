import { type Event, parseEvents, YAMLException } from 'js-yaml';
import type { Json } from '../../render/model/kube.ts';
import { contentStart } from './documents.ts';
import type { ParseFinding } from './finding.ts';
import { loadLimits } from './limits.ts';
import type { Marks } from './marks.ts';
import { deepHint, EventReader, tooDeep } from './yaml-events.ts';
import { YamlSource } from './yaml-source.ts';

export interface YamlDocument {
  /** Absent when there are errors. */
  readonly value?: Json;
  /** Errors for every reader. */
  readonly errors: readonly ParseFinding[];
  /** Values that parsers disagree on: an error only in an object that Sluice reads. */
  readonly doubts: readonly ParseFinding[];
}

/**
 * Parses one document of YAML 1.2, including KYAML, with the core schema whatever its directive says. Of several syntax errors the first is
 * reported: those behind it are mostly its consequences.
 *
 * @param marks receives the offset of each value.
 */
export function parseYaml(text: string, marks?: Marks): YamlDocument {
  const list = text.length < listBatchCharacters ? undefined : parseList(text, marks);
  if (list) return list;
  marks?.clear();
  const source = new YamlSource(text);
  const events = eventsOf(source);
  if (!Array.isArray(events)) return { errors: [events], doubts: [] };
  const reader = new EventReader(source, events, marks);
  const value = reader.document();
  const { errors, doubts } = reader.found;
  return errors.length > 0 ? { errors, doubts } : { value, errors, doubts };
}

/** The events of one batch of items are in memory at once: some 5 MB. */
const listBatchCharacters = 512 * 1024;

/**
 * Reads a long List as `kubectl get -o yaml` prints it, some items at a time: the events of a whole one with 10,000 Services take 280 MB.
 * The parts are exact where each is a document without errors and nothing refers from one to another.
 * @returns undefined for every other text, also one with errors
 */
function parseList(text: string, marks: Marks | undefined): YamlDocument | undefined {
  const begin = /^items:\n(?=- )/m.exec(text);
  // Anchors, also inside of texts.
  if (!begin || /&[^\s,[\]{}]/.test(text)) return undefined;
  const first = begin.index + begin[0].length;
  const behind = /^[^-# \n]/m.exec(text.slice(first));
  const end = behind ? first + behind.index : text.length;
  const map: Record<string, Json> = {};
  const items: Json[] = [];
  const doubts: ParseFinding[] = [];
  const read = (from: number, to: number, into: (reader: EventReader) => boolean): boolean => {
    const source = new YamlSource(text.slice(from, to), from);
    const events = eventsOf(source);
    if (!Array.isArray(events)) return false;
    const reader = new EventReader(source, events, marks);
    const isRead = into(reader) && reader.found.errors.length === 0;
    for (const doubt of reader.found.doubts) doubts.push(doubt);
    return isRead;
  };
  const root = marks?.enter('', contentStart(text));
  if (!read(0, begin.index, (reader) => reader.pairs(map)) || Object.hasOwn(map, 'items')) return undefined;
  map['items'] = items;
  const mark = marks?.enter('items', first);
  for (let from = first; from < end; ) {
    const next = text.indexOf('\n- ', from + listBatchCharacters);
    const to = next < 0 || next >= end ? end : next + 1;
    if (!read(from, to, (reader) => reader.items('items', items))) return undefined;
    from = to;
  }
  if (mark !== undefined) marks?.leave(mark);
  if (!read(end, text.length, (reader) => reader.pairs(map))) return undefined;
  if (root !== undefined) marks?.leave(root);
  return { value: map, errors: [], doubts };
}

/** The events of a part of a document, or why there are none. Indents a closing bracket wherever the library asks for it, within a budget. */
function eventsOf(source: YamlSource): Event[] | ParseFinding {
  if (hasTooManyTokens(source.text)) return tooLarge;
  for (let characters = 0; ; characters += source.text.length) {
    try {
      return parseEvents(source.text, { maxDepth: depthMax });
    } catch (error) {
      if (!(error instanceof YAMLException)) throw error;
      const at = error.reason === 'deficient indentation' ? (error.mark?.position ?? -1) : -1;
      const isBracket = at >= 0 && ']}'.includes(source.text.charAt(at));
      if (!isBracket || characters > loadLimits.reparsedCharactersMax) return syntaxError(error, source);
      source.indent(at);
    }
  }
}

/** The library counts scalars and keys, too; `EventReader` has the exact limit. */
const depthMax = loadLimits.depthMax + 8;

/** Every value and every key begins with one of these, or behind one. */
const tokenStarts = /[\n,[{]|[-?:] /g;

function hasTooManyTokens(text: string): boolean {
  // A token start and its value have at least two characters.
  if (text.length < loadLimits.yamlTokensMax) return false;
  tokenStarts.lastIndex = 0;
  for (let count = 0; tokenStarts.test(text); count++) if (count === loadLimits.yamlTokensMax) return true;
  return false;
}

const tooLarge: ParseFinding = {
  code: 'INPUT_TOO_LARGE',
  offset: 0,
  path: [],
  message: `Cannot read the document: it has more than ${loadLimits.yamlTokensMax} lines, keys and values`,
  hint: 'Write it as JSON (kubectl get -o json), or use a separate document for each object',
};

/** An error at the end is reported after the last character, not in the next document. */
function syntaxError({ reason, mark }: YAMLException, source: YamlSource): ParseFinding {
  const { text } = source;
  const offset = source.original(Math.min(mark?.position ?? 0, text.trimEnd().length));
  if (reason.startsWith('nesting exceeded'))
    return { code: 'INPUT_TOO_LARGE', offset, path: [], message: tooDeep, hint: deepHint };
  return {
    code: 'YAML_SYNTAX',
    offset,
    path: [],
    message: `Cannot read the YAML: ${reason}`,
    hint: text.includes('{{') ? templateHint : 'Fix the line; the error may start on the line above it',
  };
}

const templateHint = 'This looks like a template: render it first (helm template, kustomize build) and pass the result';
