import { fileDigest } from '@sluice/bundle';
import { compareText, differing, frontendMark, type NftState, perObject, sameLines } from '@sluice/netfilter';
import type { NodeState, ServiceNames } from '../../ports/node-state.ts';

/** A state of mode nftables that says which Service a frontend is of. */
export interface NamedState extends NodeState {
  readonly nft: NftState;
  readonly services: ServiceNames;
}

export const isNamed = (state: NodeState): state is NamedState =>
  state.nft !== undefined && state.services !== undefined;

/** The Service of each name of `ServiceNames`. No two have the same one: such a bundle is refused. */
export const ownersOf = perObject(
  (services: ServiceNames): ReadonlyMap<string, string> =>
    new Map([...services].flatMap(([service, names]) => names.map((name) => [name, service] as const))),
);

/** The key of the frontend that a name stands for; undefined: it is a port of health checks. */
export const frontendOfName = (name: string): string | undefined =>
  name.startsWith(frontendMark) ? name.slice(frontendMark.length) : undefined;

/**
 * The Services that differ between two states.
 * @returns undefined if a frontend differs whose Service is not known
 */
export function changedServices(from: NamedState, to: NamedState): ReadonlySet<string> | undefined {
  const changed = new Set<string>();
  for (const key of differing(from.nft.frontends, to.nft.frontends)) {
    if (sameLines(from.nft.frontends.get(key), to.nft.frontends.get(key))) continue;
    const name = `${frontendMark}${key}`;
    const [old, next] = [ownersOf(from.services).get(name), ownersOf(to.services).get(name)];
    if (old === undefined && next === undefined) return undefined;
    for (const service of [old, next]) if (service !== undefined) changed.add(service);
  }
  for (const service of differing(from.services, to.services))
    if (!sameLines(from.services.get(service), to.services.get(service))) changed.add(service);
  return changed;
}

/** Whether a Service has the same names, and its frontends the same lines. */
export function isSameService(service: string, from: NamedState, to: NamedState): boolean {
  const names = to.services.get(service) ?? [];
  if (!sameLines(from.services.get(service) ?? [], names)) return false;
  return names.every((name) => {
    const key = frontendOfName(name);
    return key === undefined || sameLines(from.nft.frontends.get(key), to.nft.frontends.get(key));
  });
}

/**
 * The versions of a Service on a node, 16 hex digits each. `form` covers its frontends and how they are served, of its endpoints the ports
 * alone: endpoints that come and go do not change it. `exact` covers all. Slots and their order are part of neither.
 */
interface ServiceVersions {
  readonly form: string;
  readonly exact: string;
}

/** @param service one that the state does not have has a version, too */
export function versionsOf(service: string, { nft, services }: NamedState): ServiceVersions {
  const exact: string[] = [];
  const form = new Set<string>();
  for (const name of services.get(service) ?? []) {
    exact.push(name);
    form.add(name);
    for (const line of nft.frontends.get(frontendOfName(name) ?? '') ?? []) {
      exact.push(`${name} ${line}`);
      // Where no endpoint is on this node, `none` says so; `local` says which are.
      if (!/^(?:local|none) /.test(line)) form.add(`${name} ${line.replace(/^endpoint .* \. /, 'endpoint ')}`);
    }
  }
  return { form: digestOf([...form]), exact: digestOf(exact) };
}

/** The length of a version of a bundle. */
const versionCharacters = 16;

const digestOf = (lines: readonly string[]): string =>
  fileDigest(lines.toSorted(compareText).join('\n')).slice(0, versionCharacters);

/** The version of a release without some Services: what is left of it, and the versions that these Services have instead. */
export function partialVersion(of: string, services: readonly string[], state: NamedState): string {
  const lines = services.toSorted(compareText).map((service) => `${service} ${versionsOf(service, state).form}`);
  return fileDigest(['partial', of, ...lines].join('\n')).slice(0, versionCharacters);
}
