import type { Json, Path, JsonObject } from '../../render/model/kube.ts';
import { addAll, nearest } from '@sluice/netfilter';
import { checkFormat, type FormatName } from './formats.ts';

type TypeName = 'object' | 'array' | 'string' | 'integer' | 'number' | 'boolean';

/**
 * The part of JSON Schema (draft 2020-12) that config files need. One value of this type is both what `checkSchema` enforces
 * and what is printed for editors, so the two cannot differ. `format` names a check of Sluice, which editors ignore.
 */
export interface Schema {
  readonly description?: string;
  readonly type: TypeName | readonly TypeName[];
  readonly const?: string;
  readonly enum?: readonly string[];
  readonly default?: Json;
  readonly examples?: readonly Json[];
  readonly pattern?: string;
  readonly format?: FormatName;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  /** The schema of every key. */
  readonly propertyNames?: Schema;
  /** `false`: no other keys. A schema: any keys, with values of this schema. */
  readonly additionalProperties?: false | Schema;
  /** For a field of KubeProxyConfiguration: how Sluice treats it. */
  readonly effect?: Effect;
}

/** One violation of the schema. */
export interface SchemaFinding {
  readonly path: Path;
  /** Whether the key itself is wrong, or its value. */
  readonly about: 'key' | 'value';
  readonly kind: 'type' | 'value' | 'address' | 'missing' | 'unknown' | 'unsupported';
  /** A clause that follows "Cannot use profiles[0].mode: ". */
  readonly why: string;
  readonly hint: string;
}

/** How empty values are treated. */
interface CheckOptions {
  /** Whether `field: null` means unset, as in Kubernetes. */
  readonly nullIsUnset: boolean;
}

/** All violations of `schema` in `value`, in the order of the document. */
export function checkSchema(schema: Schema, value: Json, options: CheckOptions, path: Path = []): SchemaFinding[] {
  if (value === null && options.nullIsUnset) return [];
  const types: readonly string[] = typeof schema.type === 'string' ? [schema.type] : schema.type;
  if (!types.includes(typeOf(value)) && !(typeOf(value) === 'integer' && types.includes('number'))) {
    return [wrongType(path, types, value, schema.format)];
  }
  if (typeof value === 'string') return checkText(schema, value, path);
  if (typeof value === 'number') return checkNumber(schema, value, path);
  if (Array.isArray(value)) return checkList(schema, value as readonly Json[], options, path);
  if (typeof value === 'object') return checkObject(schema, value as JsonObject, options, path);
  return [];
}

/** Prints a path for problems: `profiles[0].iptables.masqueradeBit`. */
export function printPath(path: Path): string {
  return path.reduce<string>((text, part) => {
    if (typeof part === 'number') return `${text}[${part}]`;
    if (!/^[A-Za-z0-9_-]+$/.test(part)) return `${text}[${JSON.stringify(part)}]`;
    return text === '' ? part : `${text}.${part}`;
  }, '');
}

function typeOf(value: Json): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'number') return Number.isSafeInteger(value) ? 'integer' : 'number';
  return typeof value;
}

const words: Readonly<Record<string, string>> = {
  object: 'a mapping',
  array: 'a list',
  string: 'a string',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  null: 'null',
};

function wrongType(path: Path, types: readonly string[], value: Json, format: FormatName | undefined): SchemaFinding {
  const wanted = types.map((type) => words[type]).join(' or ');
  const why = `it is ${words[typeOf(value)]}, not ${wanted}`;
  return { path, about: 'value', kind: 'type', why, hint: hintForType(wanted, types, value, format) };
}

function hintForType(wanted: string, types: readonly string[], value: Json, format: FormatName | undefined): string {
  if (value === null) return 'Set a value, or remove the key';
  if (!types.includes('string') || typeof value === 'object') return `Write ${wanted} here`;
  // Quotes alone do not make 30 a duration.
  return (format && checkFormat(format, String(value))?.hint) ?? 'Put the value in quotes';
}

function checkText(schema: Schema, value: string, path: Path): SchemaFinding[] {
  const finding = (why: string, hint: string, kind: SchemaFinding['kind'] = 'value'): SchemaFinding[] => [
    { path, about: 'value', kind, why: `${JSON.stringify(value)} ${why}`, hint },
  ];
  const wrong = schema.format && checkFormat(schema.format, value);
  if (wrong) return finding(wrong.why, wrong.hint, wrong.kind);
  const allowed = schema.const === undefined ? schema.enum : [schema.const];
  if (allowed && !allowed.includes(value)) {
    const guess = nearest(value, allowed);
    const choices = allowed.map((option) => JSON.stringify(option)).join(', ');
    return finding(
      allowed.length === 1 ? `is not ${choices}` : `is not one of ${choices}`,
      guess === undefined
        ? `Use ${allowed.length === 1 ? '' : 'one of '}${choices}`
        : `Did you mean ${JSON.stringify(guess)}?`,
    );
  }
  if (schema.pattern !== undefined && !new RegExp(schema.pattern, 'u').test(value)) {
    return finding(`does not match ${schema.pattern}`, 'Write a value that matches the pattern');
  }
  return [];
}

function checkNumber(schema: Schema, value: number, path: Path): SchemaFinding[] {
  const { minimum, maximum } = schema;
  if ((minimum === undefined || value >= minimum) && (maximum === undefined || value <= maximum)) return [];
  const range = maximum === undefined ? `${minimum} or more` : `from ${minimum ?? 'below'} to ${maximum}`;
  return [{ path, about: 'value', kind: 'value', why: `${value} is out of range`, hint: `Use a number ${range}` }];
}

function checkList(schema: Schema, value: readonly Json[], options: CheckOptions, path: Path): SchemaFinding[] {
  const { minItems = 0, maxItems = Number.POSITIVE_INFINITY, items } = schema;
  const findings: SchemaFinding[] = [];
  if (value.length < minItems || value.length > maxItems) {
    const why = `it has ${value.length} ${value.length === 1 ? 'entry' : 'entries'}`;
    const hint = value.length < minItems ? `List at least ${minItems}` : `List at most ${maxItems}`;
    findings.push({ path, about: 'value', kind: 'value', why, hint });
  }
  for (const [index, item] of value.entries()) {
    if (items) addAll(findings, checkSchema(items, item, { nullIsUnset: false }, [...path, index]));
  }
  return findings;
}

function checkObject(schema: Schema, value: JsonObject, options: CheckOptions, path: Path): SchemaFinding[] {
  const properties = schema.properties ?? {};
  const findings: SchemaFinding[] = [];
  for (const key of schema.required ?? []) {
    if (Object.hasOwn(value, key) && !(value[key] === null && options.nullIsUnset)) continue;
    findings.push({ path, about: 'value', kind: 'missing', why: `${key} is missing`, hint: `Add the field ${key}` });
  }
  for (const [key, item] of Object.entries(value)) {
    for (const wrong of schema.propertyNames ? checkText(schema.propertyNames, key, [...path, key]) : []) {
      findings.push({ ...wrong, about: 'key' });
    }
    const known = Object.hasOwn(properties, key) ? properties[key] : schema.additionalProperties;
    if (known) addAll(findings, checkSchema(known, item, options, [...path, key]));
    else if (known === false) findings.push(unknownKey([...path, key], key, Object.keys(properties)));
  }
  return findings;
}

function unknownKey(path: Path, key: string, known: readonly string[]): SchemaFinding {
  const guess = nearest(key, known);
  const fallback = known.length > 12 ? 'Check its spelling, or remove it' : `The fields here are ${known.join(', ')}`;
  const hint = guess === undefined ? fallback : `Did you mean ${guess}?`;
  return { path, about: 'key', kind: 'unknown', why: 'unknown field', hint };
}

/** How Sluice treats a field of KubeProxyConfiguration. */
export type Effect =
  | { readonly kind: 'followed'; readonly note: string }
  | Unfollowed
  | { readonly kind: 'none'; readonly why: string };

/** A field that changes kube-proxy and not Sluice. */
export interface Unfollowed {
  readonly kind: 'unfollowed';
  /** Values that make no difference: kube-proxy's default and those for "not set". Seconds for a duration. */
  readonly usual: readonly Json[];
  /** The modes of kube-proxy that use the field; absent: all. */
  readonly modes?: readonly string[];
  /** A clause that follows "Cannot follow oomScoreAdj: ". */
  readonly why: string;
  readonly hint: string;
}
