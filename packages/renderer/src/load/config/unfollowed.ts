import { nearest, type Problem } from '@sluice/netfilter';
import type { Json, JsonObject, Path } from '../../render/model/kube.ts';
import { parseGoDuration } from '../schema/duration.ts';
import { fieldEffects } from '../schema/effect.ts';
import type { Unfollowed } from '../schema/schema.ts';
import { gates, removedGates } from '../schema/gates.ts';
import { kubeProxySchema } from '../schema/kubeproxy.ts';
import { ignoredProblem } from './problems.ts';
import { childOf, touches } from './settings.ts';
import type { TextOrigin } from './text.ts';

interface Ignored {
  readonly path: Path;
  readonly why: string;
  readonly hint: string;
}

/**
 * Finds settings of a KubeProxyConfiguration that Sluice does not follow. Empty fields and kube-proxy's defaults do not count.
 * @param object the name of the configuration in problems
 * @param wrong paths with findings of the schema
 * @returns one warning per cause, at the first field
 */
export function unfollowedFields(
  value: JsonObject,
  origin: TextOrigin,
  object: string,
  wrong: readonly Path[],
): readonly Problem[] {
  const found = [...ignoredFields(value), ...unknownGates(value)].filter(
    ({ path }) => !wrong.some((other) => touches(other, path)),
  );
  return [...Map.groupBy(found, ({ why, hint }) => `${why}; ${hint}`).values()].map((fields) => {
    const [{ path, why, hint }] = fields as [Ignored, ...Ignored[]];
    const paths = fields.map((field) => field.path);
    return ignoredProblem(origin.place(path), object, paths, why, hint);
  });
}

function ignoredFields(value: JsonObject): readonly Ignored[] {
  const effects = [
    ...fieldEffects(kubeProxySchema),
    ...fieldEffects({ type: 'object', properties: gates }, ['featureGates']),
  ];
  return effects.flatMap(([name, effect]) => {
    if (effect.kind !== 'unfollowed') return [];
    const path = name.split('.');
    const found = path.reduce<Json | undefined>((at, key) => childOf(at, key), value);
    return differs(effect, found, value['mode']) ? [{ path, why: effect.why, hint: effect.hint }] : [];
  });
}

function differs({ usual, modes }: Unfollowed, value: Json | undefined, mode: Json | undefined): boolean {
  if (value === undefined || value === null) return false;
  if (modes && !modes.includes(typeof mode === 'string' ? mode : '')) return false;
  const seconds = typeof value === 'string' ? parseGoDuration(value) : undefined;
  return !usual.includes(value) && (seconds === undefined || !usual.includes(seconds));
}

/** kube-proxy does not start with an unknown gate; a known gate that it does not use changes nothing. */
function unknownGates(value: JsonObject): readonly Ignored[] {
  const set = value['featureGates'];
  if (typeof set !== 'object' || set === null || Array.isArray(set)) return [];
  const known = (name: string): boolean => Object.hasOwn(gates, name) || Object.hasOwn(removedGates, name);
  const unknown = Object.keys(set).filter((name) => !known(name));
  return unknown.map((name) => {
    const guess = nearest(name, Object.keys(gates));
    const hint = guess === undefined ? 'Check its spelling, or remove it' : `Did you mean ${guess}?`;
    return { path: ['featureGates', name], why: 'kube-proxy has no feature gate of this name', hint };
  });
}
