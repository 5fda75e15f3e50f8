import type { Level, Problem, ProblemCode } from '@sluice/netfilter';
import { isMap, type Json, type JsonObject, type KubeObject, type Path } from '../model/kube.ts';
import { quote } from './text.ts';

/** An object that is being read. */
export interface Subject {
  /** `Service shop/web`, for problems. */
  readonly title: string;
  readonly object: KubeObject;
  readonly problems: Problem[];
  /** It has an error, so its result must not be used. */
  broken: boolean;
}

/** A mapping inside an object. Its path is computed only for problems. */
export interface FieldSpot {
  readonly subject: Subject;
  readonly value: JsonObject;
  readonly above: FieldSpot | undefined;
  readonly key: string;
  /** The position in the list `key`; -1: the mapping is the value of `key` itself. */
  readonly index: number;
}

/** The whole object as a spot. */
export function spotOf(subject: Subject): FieldSpot {
  return { subject, value: subject.object.value, above: undefined, key: '', index: -1 };
}

/** The content of a problem; the default level is `error`. */
export interface FieldProblem {
  readonly code: ProblemCode;
  readonly message: string;
  readonly hint: string;
  readonly level?: Level;
}

/** Reports a problem with the value at `tail` below `spot`; an error breaks the subject. */
export function report(spot: FieldSpot, tail: Path, complaint: FieldProblem): void {
  const { subject } = spot;
  const level = complaint.level ?? 'error';
  if (level === 'error') subject.broken = true;
  const at = subject.object.origin.place([...pathOf(spot), ...tail]);
  subject.problems.push({ ...complaint, level, at, object: subject.title });
}

/** `spec.ports[0].port`: the path of a value in messages. */
export function pathText(spot: FieldSpot, tail: Path): string {
  return [...pathOf(spot), ...tail]
    .map((step) => (typeof step === 'number' ? `[${step}]` : `.${step}`))
    .join('')
    .slice(1);
}

function pathOf(spot: FieldSpot): Path {
  if (!spot.above) return [];
  const here = spot.index < 0 ? [spot.key] : [spot.key, spot.index];
  return [...pathOf(spot.above), ...here];
}

/** The value of a key. `null` means absent, as in the API server. */
export function valueIn(spot: FieldSpot, key: string): Json | undefined {
  return Object.hasOwn(spot.value, key) ? (spot.value[key] ?? undefined) : undefined;
}

/** A string, or undefined when it is absent or (with a problem) of another type. */
export function textIn(spot: FieldSpot, key: string): string | undefined {
  const value = valueIn(spot, key);
  return value === undefined || typeof value === 'string' ? value : wrongType(spot, [key], value, 'a text');
}

/** A number, whole or not. */
export function numberIn(spot: FieldSpot, key: string): number | undefined {
  const value = valueIn(spot, key);
  return value === undefined || typeof value === 'number' ? value : wrongType(spot, [key], value, 'a number');
}

export function flagIn(spot: FieldSpot, key: string): boolean | undefined {
  const value = valueIn(spot, key);
  return value === undefined || typeof value === 'boolean' ? value : wrongType(spot, [key], value, 'true or false');
}

/** A mapping as a spot of its own. */
export function mappingIn(spot: FieldSpot, key: string): FieldSpot | undefined {
  const value = valueIn(spot, key);
  if (value === undefined) return undefined;
  if (!isMap(value)) return wrongType(spot, [key], value, 'a mapping');
  return { subject: spot.subject, value, above: spot, key, index: -1 };
}

/** The spot of an absent mapping, as if it were empty. */
export function emptyIn(spot: FieldSpot, key: string): FieldSpot {
  return { subject: spot.subject, value: {}, above: spot, key, index: -1 };
}

const nothing: readonly never[] = [];

/** The items of a list; none when it is absent or (with a problem) of another type. */
function listIn(spot: FieldSpot, key: string): readonly Json[] {
  const value = valueIn(spot, key);
  if (value === undefined) return nothing;
  if (Array.isArray(value)) return value as readonly Json[];
  wrongType(spot, [key], value, 'a list');
  return nothing;
}

/** The mappings of a list; items of another type are left out, with a problem. */
export function mappingsIn(spot: FieldSpot, key: string): readonly FieldSpot[] {
  const list = listIn(spot, key);
  const spots: FieldSpot[] = [];
  for (let index = 0; index < list.length; index++) {
    const value = list[index] ?? null;
    if (isMap(value)) spots.push({ subject: spot.subject, value, above: spot, key, index });
    else wrongType(spot, [key, index], value, 'a mapping');
  }
  return spots;
}

/** The strings of a list; items of another type are left out, with a problem. */
export function textsIn(spot: FieldSpot, key: string): readonly string[] {
  const list = listIn(spot, key);
  if (list.every((item) => typeof item === 'string')) return list;
  for (const [index, value] of list.entries())
    if (typeof value !== 'string') wrongType(spot, [key, index], value, 'a text');
  return list.filter((item) => typeof item === 'string');
}

/** One of a list of words; `fallback` when it is absent or (with a problem) another word. */
export function wordIn<const W extends string, F>(
  spot: FieldSpot,
  key: string,
  words: readonly W[],
  fallback: F,
): W | F {
  const value = textIn(spot, key);
  if (value === undefined || value === '') return fallback;
  const word = words.find((candidate) => candidate === value);
  if (word !== undefined) return word;
  report(spot, [key], {
    code: 'FIELD_VALUE',
    message: `Cannot read ${pathText(spot, [key])}: ${quote(value)} is not a valid value`,
    hint: `Write ${words.slice(0, -1).join(', ')} or ${words.at(-1)}`,
  });
  return fallback;
}

function wrongType(spot: FieldSpot, tail: Path, value: Json, wanted: string): undefined {
  report(spot, tail, {
    code: 'FIELD_TYPE',
    message: `Cannot read ${pathText(spot, tail)}: it is ${nameOf(value)}, not ${wanted}`,
    hint: hintFor(value, wanted),
  });
  return undefined;
}

function hintFor(value: Json, wanted: string): string {
  if (wanted === 'a number' && typeof value === 'string' && /^[0-9]+$/.test(value))
    return 'Write the number without quotes';
  if (wanted === 'a text' && typeof value !== 'object') return 'Put the value in quotes';
  return `Write ${wanted}, as the Kubernetes API has it`;
}

function nameOf(value: Json): string {
  if (typeof value === 'string') return `the text ${quote(value)}`;
  if (typeof value === 'number' || typeof value === 'boolean') return `${typeof value} ${value}`;
  if (value === null) return 'null';
  return Array.isArray(value) ? 'a list' : 'a mapping';
}
