import type { Place } from '@sluice/netfilter';

/** A path into an object: `['spec', 'ports', 0, 'port']`. */
export type Path = readonly (string | number)[];

/** The source of an object, looked up only for problems. */
export interface Origin {
  /** The place of the value at `path`, or of its nearest existing ancestor. */
  place(path: Path): Place;
}

/** JSON as it was read. Objects have no prototype surprises: `__proto__` is a key like any other. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: Json;
}

/** The kinds that Sluice reads; `load` ignores and counts other kinds. */
export type KubeKind = 'Service' | 'Endpoints' | 'EndpointSlice' | 'Node' | 'ServiceCIDR';

/** An object of a known kind whose fields are not validated yet. */
export interface KubeObject {
  readonly kind: KubeKind;
  readonly apiVersion: string;
  readonly value: JsonObject;
  readonly origin: Origin;
}

/** Whether a value is a map. @param value of JSON or YAML */
export function isMap(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Parses a JSON text; undefined unless it is exactly one JSON value. */
export function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

/** The map itself; empty for any other value. */
export const mapOf = (value: Json | undefined): JsonObject => (isMap(value) ? value : {});

/** The list itself; empty for any other value. */
export const listOf = (value: Json | undefined): readonly Json[] =>
  Array.isArray(value) ? (value as readonly Json[]) : [];

/** The text itself; empty for any other value. */
export const textOf = (value: Json | undefined): string => (typeof value === 'string' ? value : '');
