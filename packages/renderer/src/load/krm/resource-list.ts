import { type Place, type Problem, refusal } from '@sluice/netfilter';
import { isMap, type Json, type JsonObject, type Path } from '../../render/model/kube.ts';
import { PlaceFinder } from '../origin.ts';
import { contentStart, splitDocuments } from '../parse/documents.ts';
import { parseDocument, type ParsedDocument } from '../parse/parse.ts';
import { problemsAt } from '../problems.ts';
import type { SourceFile } from '../sources.ts';

/**
 * The list that an orchestrator such as kustomize or kpt passes to a function (KRM Functions Specification, "Input Type").
 * `items` are not parsed here: `load` reads them from the same text.
 */
export interface ResourceList {
  readonly value: JsonObject;
  /** The original document. The output is this text with other results, so that comments and spellings are kept. */
  readonly text: string;
  /** JSON, or YAML in flow style. */
  readonly isFlow: boolean;
  readonly functionConfig: JsonObject | undefined;
  /** The place of the value at a path of the list. */
  place(path: Path): Place;
}

/** Reads the single list of the input, or returns the problems. */
export function readResourceList(source: SourceFile): ResourceList | readonly Problem[] {
  const parsed = splitDocuments(source.file, source.text).flatMap(parseDocument);
  const [document] = parsed;
  if (document === undefined) return [noList(source, 'it contains no document')];
  if (parsed.length > 1) return [noList(source, `it contains ${parsed.length} documents`)];
  if (document.errors.length > 0) return problemsAt(document.document, document.errors);
  const { value } = document;
  if (value === undefined || !isMap(value)) return [noList(source, 'it is not a map')];
  const why = whyNoList(value);
  return why === undefined ? listOf(document, value) : [noList(source, why)];
}

function listOf(document: ParsedDocument, value: JsonObject): ResourceList {
  const { text } = document.document;
  const places = new PlaceFinder();
  const functionConfig = own(value, 'functionConfig');
  return {
    value,
    text,
    isFlow: text.charAt(contentStart(text)) === '{',
    functionConfig: functionConfig !== undefined && isMap(functionConfig) ? functionConfig : undefined,
    place: (path) => places.place(document, path),
  };
}

/** A function must accept a ResourceList, and any other list of objects as well. */
function whyNoList(value: JsonObject): string | undefined {
  const [kind, items, config] = [own(value, 'kind'), own(value, 'items'), own(value, 'functionConfig')];
  if (typeof kind !== 'string' || !kind.endsWith('List')) return 'its kind is not a list';
  if (items !== undefined && items !== null && !Array.isArray(items)) return 'its items are not a list';
  return config === undefined || config === null || isMap(config) ? undefined : 'its functionConfig is not a map';
}

/** A value under a key of its own, not of the prototype. */
export function own(map: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(map, key) ? map[key] : undefined;
}

const noList = ({ file }: SourceFile, why: string): Problem =>
  refusal(
    'OBJECT_MALFORMED',
    `Cannot find a ResourceList in the input: ${why}`,
    'Run the function with kustomize or kpt; for plain manifests use sluice render',
    { at: { file, line: 1, column: 1 } },
  );
