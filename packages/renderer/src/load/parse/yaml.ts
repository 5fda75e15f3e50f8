import { type Document, Lexer, parseDocument, type YAMLError } from 'yaml';
import type { Json } from '../../render/kube.ts';
import type { Finding } from './finding.ts';
import { loadLimits } from '../limits.ts';
import type { Marks } from './marks.ts';
import { NodeReader } from './yaml-nodes.ts';

export interface YamlDocument {
  /** Absent when there are errors. */
  readonly value?: Json;
  /** What no reader could take. */
  readonly errors: readonly Finding[];
  /** What readers disagree on: an error only in an object that Sluice reads. */
  readonly doubts: readonly Finding[];
}

/**
 * One document in any YAML 1.2 there is, KYAML too, read with the core schema whatever its directive says. Slower than the
 * subset parser, complete in what it reports: every error with its offset, and bounded against bombs.
 *
 * @param marks is told where each value begins.
 */
export function parseYaml(text: string, marks?: Marks): YamlDocument {
  const tooLarge = bounds(text);
  if (tooLarge !== undefined) return { errors: [tooLarge], doubts: [] };
  let document: Document.Parsed;
  try {
    document = parseDocument(text, options);
  } catch (error) {
    // The library calls itself for each level of nesting.
    if (error instanceof RangeError) return { errors: [tooDeep(0)], doubts: [] };
    throw error;
  }
  if (document.errors.length > 0) return { errors: syntaxErrors(document.errors, text), doubts: [] };
  const reader = new NodeReader(marks);
  const value = reader.read(document.contents);
  const { errors, doubts } = reader;
  return errors.length > 0 ? { errors, doubts } : { value, errors, doubts };
}

/** The reader checks keys for repetition itself: the library's own check is quadratic in the size of a map. */
const options = {
  version: '1.2',
  schema: 'core',
  merge: false,
  resolveKnownTags: false,
  uniqueKeys: false,
  prettyErrors: false,
  logLevel: 'silent',
} as const;

/** The library reads this many levels without harm. */
const harmlessBrackets = 1000;
const dashesInARow = new RegExp(`^ *(?:[-?:] +){${loadLimits.depthMax + 1}}`, 'm');

/** What would cost the library too much time or stack to find out. */
function bounds(text: string): Finding | undefined {
  if (text.length > loadLimits.generalCharactersMax) {
    return {
      code: 'INPUT_TOO_LARGE',
      offset: 0,
      path: [],
      message: `Cannot read the document: it has ${text.length} characters, and only JSON and plain block style may have more than ${loadLimits.generalCharactersMax}`,
      hint: 'Write it as JSON (kubectl get -o json), or give each object a document of its own',
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
 * Where flow collections are nested too deep. Only the library's lexer knows which brackets stand in comments and scalars;
 * it needs no stack, unlike the parser behind it.
 */
function deepFlow(text: string): Finding | undefined {
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

/** Tokens that stand for no text: a document begins, a flow collection ends early, a scalar follows. */
const lexerMarks = new Set(['\u0002', '\u0018', '\u001f']);

function tooDeep(offset: number): Finding {
  return {
    code: 'INPUT_TOO_LARGE',
    offset,
    path: [],
    message: `Cannot read the document: its maps and lists are nested deeper than ${loadLimits.depthMax}`,
    hint: 'No Kubernetes object is nested as deep; look for a bracket that is never closed',
  };
}

/**
 * One error per line, and none after the parser has lost its way: the library reports the consequences of an error as errors
 * of their own. Of a template only the first says anything.
 */
function syntaxErrors(errors: readonly YAMLError[], text: string): Finding[] {
  const byLine = new Map<number, Finding>();
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

/** What is missing at the end is reported behind the last character, not in the next document. */
function syntaxError(error: YAMLError, text: string): Finding {
  const [sentence = ''] = error.message.split('\n', 1);
  return {
    code: 'YAML_SYNTAX',
    offset: Math.min(error.pos[0], text.trimEnd().length),
    path: [],
    message: `Cannot read the YAML: ${sentence.charAt(0).toLowerCase()}${sentence.slice(1)}`,
    hint: 'Correct the line; the error may have begun on the line above it',
  };
}
