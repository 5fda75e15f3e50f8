import { type Document, Lexer, parseDocument, type YAMLError } from 'yaml';
import type { Json } from '../../render/kube.ts';
import type { ParseFinding } from './finding.ts';
import { loadLimits } from '../limits.ts';
import type { Marks } from './marks.ts';
import { NodeReader } from './yaml-nodes.ts';

export interface YamlDocument {
  /** Absent when there are errors. */
  readonly value?: Json;
  /** Errors for every reader. */
  readonly errors: readonly ParseFinding[];
  /** Values that parsers disagree on: an error only in an object that Sluice reads. */
  readonly doubts: readonly ParseFinding[];
}

/**
 * Parses one document of full YAML 1.2, including KYAML, with the core schema whatever its directive says. Slower than the subset parser,
 * with complete error reports and limits against bombs.
 *
 * @param marks receives the offset of each value.
 */
export function parseYaml(text: string, marks?: Marks): YamlDocument {
  const tooLarge = bounds(text);
  if (tooLarge !== undefined) return { errors: [tooLarge], doubts: [] };
  let document: Document.Parsed;
  try {
    document = parseDocument(text, options);
  } catch (error) {
    // The library recurses for each level of nesting.
    if (error instanceof RangeError) return { errors: [tooDeep(0)], doubts: [] };
    throw error;
  }
  if (document.errors.length > 0) return { errors: syntaxErrors(document.errors, text), doubts: [] };
  const reader = new NodeReader(marks);
  const value = reader.read(document.contents);
  const { errors, doubts } = reader;
  return errors.length > 0 ? { errors, doubts } : { value, errors, doubts };
}

/** `NodeReader` checks for duplicate keys: the library's check is quadratic in the size of a map. */
const options = {
  version: '1.2',
  schema: 'core',
  merge: false,
  resolveKnownTags: false,
  uniqueKeys: false,
  prettyErrors: false,
  logLevel: 'silent',
} as const;

/** The library handles this many levels. */
const harmlessBrackets = 1000;
const dashesInARow = new RegExp(`^ *(?:[-?:] +){${loadLimits.depthMax + 1}}`, 'm');

/** Checks limits that would cost the library too much time or stack. */
function bounds(text: string): ParseFinding | undefined {
  if (text.length > loadLimits.generalCharactersMax) {
    return {
      code: 'INPUT_TOO_LARGE',
      offset: 0,
      path: [],
      message: `Cannot read the document: it has ${text.length} characters, and the limit is ${loadLimits.generalCharactersMax} except for JSON and plain block style`,
      hint: 'Write it as JSON (kubectl get -o json), or use a separate document for each object',
    };
  }
  const dashes = dashesInARow.exec(text);
  if (dashes) return tooDeep(dashes.index);
  return opensMoreThan(harmlessBrackets, text) ? deepFlow(text) : undefined;
}

function opensMoreThan(limit: number, text: string): boolean {
  const opening = /[{[]/g;
  for (let open = 0; open <= limit; open++) {
    if (!opening.test(text)) return false;
  }
  return true;
}

/**
 * Finds flow collections that are nested too deeply. Uses the library's lexer, which knows the brackets in comments and scalars and, unlike
 * the parser, does not recurse.
 */
function deepFlow(text: string): ParseFinding | undefined {
  let depth = 0;
  let offset = 0;
  for (const token of new Lexer().lex(text)) {
    if (token === '[' || token === '{') depth++;
    else if (token === ']' || token === '}') depth--;
    if (depth > loadLimits.depthMax) return tooDeep(offset);
    if (!lexerMarks.has(token)) offset += token.length;
  }
  return undefined;
}

/** Tokens without text: a document starts, a flow collection ends early, a scalar follows. */
const lexerMarks = new Set(['\u0002', '\u0018', '\u001f']);

function tooDeep(offset: number): ParseFinding {
  return {
    code: 'INPUT_TOO_LARGE',
    offset,
    path: [],
    message: `Cannot read the document: its maps and lists are nested deeper than ${loadLimits.depthMax}`,
    hint: 'Kubernetes objects are never nested that deeply; look for an unclosed bracket',
  };
}

/**
 * One error per line, and none after the parser is out of sync: the library reports the consequences of an error as further errors. For a
 * template only the first is useful.
 */
function syntaxErrors(errors: readonly YAMLError[], text: string): ParseFinding[] {
  const byLine = new Map<number, ParseFinding>();
  const [first] = errors;
  if (first !== undefined && text.includes('{{')) return [{ ...syntaxError(first, text), hint: templateHint }];
  for (const error of errors) {
    const line = text.lastIndexOf('\n', error.pos[0] - 1);
    const lost = error.code === 'UNEXPECTED_TOKEN' && byLine.size > 0;
    if (lost || byLine.size === loadLimits.errorsPerDocumentMax) break;
    if (!byLine.has(line)) byLine.set(line, syntaxError(error, text));
  }
  return [...byLine.values()];
}

const templateHint = 'This looks like a template: render it first (helm template, kustomize build) and pass the result';

/** An error at the end is reported after the last character, not in the next document. */
function syntaxError(error: YAMLError, text: string): ParseFinding {
  const [sentence = ''] = error.message.split('\n', 1);
  return {
    code: 'YAML_SYNTAX',
    offset: Math.min(error.pos[0], text.trimEnd().length),
    path: [],
    message: `Cannot read the YAML: ${sentence.charAt(0).toLowerCase()}${sentence.slice(1)}`,
    hint: 'Fix the line; the error may start on the line above it',
  };
}
