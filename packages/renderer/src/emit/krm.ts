import { compareProblems, type Level, type Place, type Problem } from '@sluice/netfilter';
import { stringify } from 'yaml';
import { own, type ResourceList } from '../load/krm/resource-list.ts';
import { isMap, type Json, type JsonObject, mapOf } from '../render/model/kube.ts';

/** One entry of `results` (KRM Functions Specification, "Output Results"). */
export interface FunctionResult {
  readonly message: string;
  readonly severity: 'error' | 'warning' | 'info';
  /** The object of the problem. */
  readonly resourceRef?: JsonObject;
  /** The file of the object, from its annotations, or a file named by the functionConfig. */
  readonly file?: JsonObject;
  /** The code of the problem, and its place if it is in a file. */
  readonly tags: Readonly<Record<string, string>>;
}

const severities = {
  error: 'error',
  warning: 'warning',
  differs: 'info',
  guess: 'info',
  note: 'info',
} as const satisfies Record<Level, FunctionResult['severity']>;

/**
 * Converts problems to results. A line of the list means nothing to the author of the manifests, so the result names the object and its
 * file instead.
 */
export function resultsOf(list: ResourceList, file: string, problems: readonly Problem[]): readonly FunctionResult[] {
  if (problems.length === 0) return [];
  const entries = entriesOf(list);
  return problems.toSorted(compareProblems).map((problem) => {
    const { code, level, at, object, message, hint } = problem;
    const head = { message: `${object ? `${object}: ` : ''}${message}. ${hint}`, severity: severities[level] };
    if (at === undefined) return { ...head, tags: { code } };
    if (at.file !== file) {
      return { ...head, file: { path: at.file }, tags: { code, at: `${at.file}:${at.line}:${at.column}` } };
    }
    return { ...head, ...aboutOf(entryAt(entries, at)), tags: { code } };
  });
}

interface PlacedItem {
  readonly at: Place;
  readonly value: JsonObject;
}

/** The items and the functionConfig, in the order of the text. */
function entriesOf(list: ResourceList): readonly PlacedItem[] {
  const items = own(list.value, 'items');
  const ofItems = (Array.isArray(items) ? (items as readonly Json[]) : []).flatMap((value, index) =>
    isMap(value) ? [{ at: list.place(['items', index]), value }] : [],
  );
  if (list.functionConfig === undefined) return ofItems;
  const config = { at: list.place(['functionConfig']), value: list.functionConfig };
  return [...ofItems, config].toSorted((a, b) => comparePlaces(a.at, b.at));
}

const comparePlaces = (a: Place, b: Place): number => a.line - b.line || a.column - b.column;

function entryAt(entries: readonly PlacedItem[], at: Place): JsonObject | undefined {
  return entries.findLast((entry) => comparePlaces(entry.at, at) <= 0)?.value;
}

const pathAnnotations = ['internal.config.kubernetes.io/path', 'config.kubernetes.io/path'];
const indexAnnotations = ['internal.config.kubernetes.io/index', 'config.kubernetes.io/index'];

function aboutOf(value: JsonObject | undefined): Pick<FunctionResult, 'resourceRef' | 'file'> {
  if (value === undefined) return {};
  const metadata = mapOf(own(value, 'metadata'));
  const annotations = mapOf(own(metadata, 'annotations'));
  const path = textUnder(annotations, pathAnnotations);
  const index = Number(textUnder(annotations, indexAnnotations) ?? Number.NaN);
  return {
    resourceRef: Object.fromEntries([
      ...textsOf(value, ['apiVersion', 'kind']),
      ...textsOf(metadata, ['name', 'namespace']),
    ]),
    ...(path === undefined ? {} : { file: { path, ...(Number.isInteger(index) ? { index } : {}) } }),
  };
}

function textUnder(map: JsonObject, keys: readonly string[]): string | undefined {
  return keys.map((key) => own(map, key)).find((value) => typeof value === 'string');
}

function textsOf(map: JsonObject, keys: readonly string[]): readonly (readonly [string, string])[] {
  return keys.flatMap((key) => {
    const value = own(map, key);
    return typeof value === 'string' ? [[key, value] as const] : [];
  });
}

/**
 * Prints the list with its results replaced by these. YAML in block style keeps every byte of its items; flow style is printed as JSON.
 */
export function printResourceList({ value, text, isFlow }: ResourceList, results: readonly FunctionResult[]): string {
  if (isFlow) {
    const { results: _old, ...rest } = value;
    return `${JSON.stringify({ ...rest, ...(results.length === 0 ? {} : { results }) }, null, 2)}\n`;
  }
  const kept = withoutResults(text);
  if (results.length === 0) return kept;
  return `${kept}${stringify({ results }, { lineWidth: 0, aliasDuplicateObjects: false })}`;
}

/**
 * Removes `results` from a map in block style. Its value ends at the next line with a key in the first column; list items, comments and
 * markers may be in that column as well.
 */
function withoutResults(text: string): string {
  const whole = text.endsWith('\n') ? text : `${text}\n`;
  const lines = whole.split(/(?<=\n)/);
  const start = lines.findIndex((line) => /^(?:results|'results'|"results")[ \t]*:(?:\s|$)/.test(line));
  if (start < 0) return whole;
  const length = lines.slice(start + 1).findIndex((line) => /^(?![-#]|\s)/.test(line));
  return [...lines.slice(0, start), ...(length < 0 ? [] : lines.slice(start + 1 + length))].join('');
}
