import type { Effect, Unfollowed, Schema } from './schema.ts';

/** @param note for the operator */
export const followed = (schema: Schema, note = ''): Schema => ({ ...schema, effect: { kind: 'followed', note } });

export const allFollowed = (schemas: Readonly<Record<string, Schema>>): Record<string, Schema> =>
  Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, followed(schema)]));

export const unfollowed = (schema: Schema, effect: Omit<Unfollowed, 'kind'>): Schema => ({
  ...schema,
  effect: { kind: 'unfollowed', ...effect },
});

/** @param why the field has no effect on rules or on Sluice */
export const withoutEffect = (schema: Schema, why: string): Schema => ({ ...schema, effect: { kind: 'none', why } });

/** All fields of a schema that have an effect, by path: `iptables.masqueradeBit`. */
export function fieldEffects(schema: Schema, path: readonly string[] = []): ReadonlyMap<string, Effect> {
  const fields = Object.entries(schema.properties ?? {}).flatMap(([name, child]) => {
    const below = [...path, name];
    return child.effect ? [[below.join('.'), child.effect] as const] : [...fieldEffects(child, below)];
  });
  return new Map(fields);
}
