import { mapOf, textOf, type JsonObject } from '../render/model/kube.ts';

/** The map under a key; empty if there is none. */
export function mapAt(object: JsonObject, key: string): JsonObject {
  return mapOf(object[key]);
}

/** The string under a key; empty if there is none. */
export function textAt(object: JsonObject, key: string): string {
  return textOf(object[key]);
}
