import { isMap, type Json, type JsonObject } from '../render/kube.ts';

/** Parses a text from a server; undefined when it is not JSON. */
export function parseJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
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
