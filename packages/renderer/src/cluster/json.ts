import type { Json, JsonObject } from '../render/kube.ts';

/** Parses a text from a server; undefined when it is not JSON. */
export function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

export function isMap(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The map under a key; empty if there is none. */
export function mapAt(object: JsonObject, key: string): JsonObject {
  const value = object[key];
  return isMap(value) ? value : {};
}

/** The string under a key; empty if there is none. */
export function textAt(object: JsonObject, key: string): string {
  const value = object[key];
  return typeof value === 'string' ? value : '';
}
