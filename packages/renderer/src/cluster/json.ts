import { mapOf, textOf, type Json, type JsonObject } from '../render/model/kube.ts';

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
  return mapOf(object[key]);
}

/** The string under a key; empty if there is none. */
export function textAt(object: JsonObject, key: string): string {
  return textOf(object[key]);
}
