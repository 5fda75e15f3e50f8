import type { Json } from '../../render/kube.ts';
import type { Schema } from './schema.ts';

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
