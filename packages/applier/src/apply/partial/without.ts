import { compareText, Layered } from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import type { VersionedState } from '../../ports/journal.ts';
import type { NodeState, ServiceNames } from '../../ports/node-state.ts';
import { frontendOfName, type NamedState, ownersOf, partialVersion } from './services.ts';

/** Why Services cannot be left out of a release. */
export interface NotPossible {
  readonly why: string;
}

/**
 * A state with some Services as another one has them; one that the other one lacks is removed.
 *
 * Not possible where a frontend of one of them is of another Service in one of the states: the other Service would lose it, or both would
 * have it.
 */
export function withServicesOf(
  state: NamedState,
  other: NamedState,
  services: readonly string[],
): NamedState | NotPossible {
  const moved = services.flatMap((service) => movedFrom(service, state, other)).toSorted(compareText);
  if (moved[0] !== undefined) return { why: moved[0] };
  const taken = new Set(services);
  const lines: [string, readonly string[] | undefined][] = [];
  for (const service of services) {
    for (const name of [...(state.services.get(service) ?? []), ...(other.services.get(service) ?? [])]) {
      const key = frontendOfName(name);
      if (key !== undefined) lines.push([key, other.nft.frontends.get(key)]);
    }
  }
  const names = Layered.of(state.services).with(services.map((service) => [service, other.services.get(service)]));
  return {
    ...state,
    services: names,
    nft: {
      settings: settingsOf(state, other, taken),
      frontends: Layered.of(state.nft.frontends).with(lines),
    },
  };
}

/** Names of a Service that are of another one in the other state, each in words. */
function movedFrom(service: string, state: NamedState, other: NamedState): readonly string[] {
  const of = (names: ServiceNames, others: ServiceNames): readonly string[] =>
    (names.get(service) ?? []).flatMap((name) => {
      const owner = ownersOf(others).get(name);
      return owner === undefined || owner === service ? [] : [`${name} is of ${service} and of ${owner}`];
    });
  return [...of(state.services, other.services), ...of(other.services, state.services)];
}

const isHealth = (setting: string): boolean => setting.startsWith('health ');

/** Ports of health checks are settings, sorted at the end. */
function settingsOf(state: NamedState, other: NamedState, taken: ReadonlySet<string>): readonly string[] {
  const [own, theirs] = [ownersOf(state.services), ownersOf(other.services)];
  const isTaken = (name: string, owners: ReadonlyMap<string, string>): boolean => taken.has(owners.get(name) ?? '');
  const ports = [
    ...state.nft.settings.filter((one) => isHealth(one) && !isTaken(one, own)),
    ...other.nft.settings.filter((one) => isHealth(one) && isTaken(one, theirs)),
  ];
  const settings = [...state.nft.settings.filter((one) => !isHealth(one)), ...ports.toSorted(compareText)];
  const same = [state.nft.settings, other.nft.settings].find((one) => one.join('\n') === settings.join('\n'));
  return same ?? settings;
}

/** A bundle without some Services, which stay as another state has them. */
export function bundleWithout(
  { version, state, partial }: VersionedState,
  left: { readonly state: NamedState; readonly services: readonly string[]; readonly because: string },
): VersionedState {
  const of = partial?.of ?? version;
  const services = [...new Set([...(partial?.services ?? []), ...left.services])].toSorted(compareText);
  const because = [...new Set([...(partial ? [partial.because] : []), left.because])].join('; ');
  return {
    version: partialVersion(of, services, left.state),
    state: { ...state, ...left.state } satisfies NodeState,
    partial: { of, services, because: because.slice(0, limits.reasonCharactersMax) },
  };
}
