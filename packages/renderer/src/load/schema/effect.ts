import type { Json } from '../../render/kube.ts';
import type { Schema } from './schema.ts';

/** What becomes of a field of KubeProxyConfiguration. */
export type Effect =
  | { readonly kind: 'followed'; readonly note: string }
  | Unfollowed
  | { readonly kind: 'none'; readonly why: string };

/** kube-proxy would behave otherwise with it than Sluice does. */
export interface Unfollowed {
  readonly kind: 'unfollowed';
  /** Values with which there is no difference: kube-proxy's default, and the values for "not set". Seconds for a duration. */
  readonly usual: readonly Json[];
  /** kube-proxy's modes in which the field counts; absent: all. */
  readonly modes?: readonly string[];
  /** A clause that follows "Cannot follow oomScoreAdj: ". */
  readonly why: string;
  readonly hint: string;
}

/** @param note what an operator has to know besides */
export const followed = (schema: Schema, note = ''): Schema => ({ ...schema, effect: { kind: 'followed', note } });

export const allFollowed = (schemas: Readonly<Record<string, Schema>>): Record<string, Schema> =>
  Object.fromEntries(Object.entries(schemas).map(([name, schema]) => [name, followed(schema)]));

export const unfollowed = (schema: Schema, effect: Omit<Unfollowed, 'kind'>): Schema => ({
  ...schema,
  effect: { kind: 'unfollowed', ...effect },
});

/** @param why neither rules nor anything else that Sluice does would be otherwise */
export const withoutEffect = (schema: Schema, why: string): Schema => ({ ...schema, effect: { kind: 'none', why } });

/** Every field below a schema of which is said what becomes of it, by its path: `iptables.masqueradeBit`. */
export function fieldEffects(schema: Schema, path: readonly string[] = []): ReadonlyMap<string, Effect> {
  const fields = Object.entries(schema.properties ?? {}).flatMap(([name, child]) => {
    const below = [...path, name];
    return child.effect ? [[below.join('.'), child.effect] as const] : [...fieldEffects(child, below)];
  });
  return new Map(fields);
}
