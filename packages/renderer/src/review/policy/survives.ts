import type { FailedPlace } from '../failures/failure.ts';
import { isBroken, passes, type PortEffect } from '../failures/effect.ts';
import { type Failures, failuresOf } from '../failures/failures.ts';
import type { PolicyContext } from './context.ts';
import type { Violation } from './finding.ts';
import { severalKinds } from './losses.ts';
import { levelOf, policyDefaults, type SurvivalSettings } from './settings.ts';

const codes = { node: 'SURVIVES_NODE', zone: 'SURVIVES_ZONE' } as const;

/** SURVIVES_NODE and SURVIVES_ZONE: one finding for each Service and family. Every single failure is judged, so nothing is done while they are off. */
export function survivals(context: PolicyContext): readonly Violation[] {
  const kinds = severalKinds(context).filter((kind) => levelOf(codes[kind], context.settings) !== undefined);
  if (kinds.length === 0) return [];
  const failures = failuresOf(context.view);
  return kinds.flatMap((kind) => survivalsOf(failures, kind, context.settings.survives ?? {}));
}

/** What a failure breaks. */
interface Casualty {
  readonly place: FailedPlace;
  readonly effect: PortEffect;
}

function survivalsOf(failures: Failures, kind: 'node' | 'zone', settings: SurvivalSettings): readonly Violation[] {
  const most = (settings.sharePercent ?? policyDefaults.survivesSharePercent) / 100;
  const isMeant = meant(settings.services);
  const found = failures.names(kind).flatMap((name): readonly Casualty[] => {
    const place = { kind, name };
    const { effects } = failures.effects([place]);
    return effects
      .filter((effect) => isMeant(effect.port.service) && isBroken(effect, most))
      .map((effect) => ({ place, effect }));
  });
  const groups = Map.groupBy(found, ({ effect: { port } }) => `${port.service} ${port.family} ${port.path}`);
  return [...groups.values()].map((casualties) => violationOf(kind, casualties, most));
}

/** Whether a Service is one of the list. @param list `shop/web`, `shop/*`; absent: every Service is */
function meant(list: readonly string[] | undefined): (service: string) => boolean {
  const names = new Set(list);
  return (service) =>
    list === undefined || names.has(service) || names.has(`${service.slice(0, service.indexOf('/'))}/*`);
}

/** Places that a message names. */
const namedMax = 3;

function violationOf(kind: 'node' | 'zone', casualties: readonly Casualty[], most: number): Violation {
  const { effect } = casualties[0]!;
  const { port } = effect;
  const places = [...new Set(casualties.map(({ place }) => place.name))];
  const others = new Set(casualties.map((one) => one.effect.port.key)).size - 1;
  const more = places.length > namedMax ? ` and ${places.length - namedMax} more` : '';
  const named = `${kind}${places.length > 1 ? 's' : ''} ${places.slice(0, namedMax).join(', ')}${more}`;
  const ports = others === 0 ? '' : `; ${others} more of its ports, too`;
  return {
    code: codes[kind],
    subject: port.service,
    message: `Cannot survive the loss of ${places.length > 1 ? 'one of ' : ''}${named}: ${lossOf(effect, most)} (${port.family})${ports}`,
    hint: `Run more endpoints, on more than one ${kind}`,
    path: port.path,
    line: 1,
  };
}

function lossOf(effect: PortEffect, most: number): string {
  const { port, isGone, dark, share } = effect;
  if (isGone) return `${port.key} has no endpoint then`;
  if (dark.length > 0) return `no node answers ${dark[0]} of ${port.key} then`;
  if (passes(effect, most)) {
    const percent = Math.round(share.after * 100);
    return `${share.endpoint} gets ${percent} % of the connections to ${port.key} then`;
  }
  return `${port.key} has no endpoint on ${effect.without[0]!.nodes[0]} then`;
}
