import { getOrInsert } from '@sluice/netfilter';
import type { DifferingCase } from './differing-case.ts';
import { isPassed, portOf } from './packets.ts';

/** What differs between two outcomes. */
export type ParityAspect =
  | 'frontend'
  | 'verdict'
  | 'endpoints'
  | 'shares'
  | 'affinity'
  | 'masquerade'
  | 'reject'
  | 'scheduler';

/** What a setting is about: which frontends there are, who is a pod, or a list of the profile alone. */
export type SettingKind = 'frontends' | 'pods' | 'masquerade' | 'scheduler';

/** What is known of a case while others are still to come. */
type ComparedCase = Pick<DifferingCase, 'row' | 'frontend' | 'observed' | 'desired'>;

/** Frontends of one kind, as one class of sources finds them. */
interface Kind {
  readonly frontends: Set<string>;
  /** Those with an endpoint: the others have nothing to masquerade. */
  readonly served: Set<string>;
  readonly differing: Map<ParityAspect, Set<string>>;
}

/**
 * Tells a setting of the node from a change of one Service: a setting shows at most frontends of a kind. A class of sources has many
 * cases, by the networks that rules name, so that frontends are counted and not cases.
 */
export class Settings {
  readonly #kinds = new Map<string, Kind>();
  /** Node ports that both sides serve, at any address. */
  readonly #ports = new Set<string>();
  /** Services that both sides serve at a cluster IP, and those whose endpoints differ there. */
  readonly #services = new Set<string>();
  readonly #changed = new Set<string>();
  /** Places that clients outside find different. */
  readonly #outside = new Set<string>();

  /** Addresses that the bundle does not have, and endpoints that both sides serve at cluster IPs: external IPs have the same ones. */
  readonly #strange = new Set<string>();
  readonly #endpoints = new Set<string>();
  #hasExternal = false;

  /** @param aspect undefined: the sides are alike */
  note(of: ComparedCase, aspect: ParityAspect | undefined): void {
    const { row, frontend, observed, desired } = of;
    const { source, destination } = row;
    if (isBeyondItself(of)) {
      const kind = this.#kindOf(of);
      kind.frontends.add(placeOf(of));
      if (observed.branches.some(({ to }) => to !== undefined)) kind.served.add(placeOf(of));
      if (aspect !== undefined) kind.differing.set(aspect, (kind.differing.get(aspect) ?? new Set()).add(placeOf(of)));
    }
    if (!isPassed(observed) && !isPassed(desired)) {
      this.#ports.add(portOf(destination));
      if (frontend?.role === 'cluster') {
        this.#services.add(frontend.declared.service);
        this.#endpoints.add(endpointsOf(desired));
      }
    }
    this.#hasExternal ||= frontend?.role === 'external';
    if (aspect === undefined) return;
    if (isStrange(of)) this.#strange.add(placeOf(of));
    if (frontend?.role === 'cluster' && aspect !== 'masquerade') this.#changed.add(frontend.declared.service);
    if (source.class === 'outside' && source.network === undefined) this.#outside.add(placeOf(of));
  }

  /** The setting that makes a difference; undefined: none does. Asked once all cases are noted. */
  settingOf(of: DifferingCase, aspect: ParityAspect): SettingKind | undefined {
    if (aspect === 'masquerade')
      return of.frontend && isBeyondItself(of) && this.#isCommon(of, aspect) ? 'masquerade' : undefined;
    if (this.#isOfFrontends(of, aspect)) return 'frontends';
    return this.#isOfPods(of, aspect) ? 'pods' : undefined;
  }

  /** Without endpoints on the node, rules for policy Local drop what no rule translates: then the verdict differs, at most frontends there is none. */
  #isOfFrontends(of: DifferingCase, aspect: ParityAspect): boolean {
    if (aspect !== 'frontend' && aspect !== 'verdict') return false;
    const { row, frontend } = of;
    // One address may have been taken from its Service; the gate takes those of all Services.
    if (isStrange(of))
      return !this.#hasExternal && this.#strange.size > 1 && this.#endpoints.has(endpointsOf(of.observed));
    const isOfPort = row.destination.kind === 'localhost' || row.destination.kind === 'node-port';
    if (isOfPort && aspect === 'frontend' && this.#ports.has(portOf(row.destination))) return true;
    if (frontend === undefined || !(isOfPort || frontend.role === 'external')) return false;
    return this.#services.has(frontend.declared.service) && this.#isCommon(of, 'frontend');
  }

  /** Policy Local is for clients outside: whether a source is a pod is a setting, where clients and the cluster IP find nothing different. */
  #isOfPods({ row, frontend, ...rest }: DifferingCase, aspect: ParityAspect): boolean {
    if (frontend === undefined || frontend.role === 'cluster' || frontend.role === 'health-check') return false;
    const { notes, service } = frontend.declared;
    return (
      (aspect === 'verdict' || aspect === 'endpoints' || aspect === 'shares') &&
      notes.externalPolicy === 'Local' &&
      // Source ranges may name pods.
      (frontend.role !== 'load-balancer' || notes.sourceRanges.length === 0) &&
      row.source.class !== 'node' &&
      !this.#outside.has(placeOf({ row, frontend, ...rest })) &&
      this.#services.has(service) &&
      !this.#changed.has(service)
    );
  }

  #isCommon(of: ComparedCase, aspect: ParityAspect): boolean {
    const { frontends, served, differing } = this.#kindOf(of);
    const all = aspect === 'masquerade' ? served : frontends;
    return 2 * (differing.get(aspect)?.size ?? 0) > all.size;
  }

  #kindOf({ row, frontend }: ComparedCase): Kind {
    const { source, destination, packet } = row;
    const at = destination.kind === 'node-port' ? packet.destination : '';
    const key = [source.class, frontend?.role ?? '', destination.kind, at].join(' ');
    return getOrInsert(this.#kinds, key, () => ({ frontends: new Set(), served: new Set(), differing: new Map() }));
  }
}

const placeOf = ({ row: { destination, packet } }: ComparedCase): string =>
  [destination.kind, packet.destination, packet.port, packet.protocol].join(' ');

const endpointsOf = ({ branches }: ComparedCase['observed']): string => branches.map(({ to = '' }) => to).join();

const isStrange = ({ row, frontend, desired }: ComparedCase): boolean =>
  frontend === undefined && row.destination.kind === 'address' && isPassed(desired);

/** No setting decides whether an endpoint is masqueraded on its way to itself: whether there is more to a case. */
function isBeyondItself({ row: { source }, observed, desired }: ComparedCase): boolean {
  if (source.class !== 'endpoint') return true;
  const others = ({ branches }: ComparedCase['observed']): string =>
    branches
      .filter(({ to = '' }) => !to.startsWith(`${source.address}:`) && !to.startsWith(`[${source.address}]:`))
      .map(({ to, masquerade }) => `${to ?? ''} ${masquerade}`)
      .join();
  return others(observed) !== others(desired) || (others(observed) !== '' && observed.key === desired.key);
}
