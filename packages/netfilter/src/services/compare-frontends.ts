import { differing, Layered } from '../layered.ts';
import { addressesHere, frontendLines, type NftFrontend, readFrontend } from '../nftables/frontend.ts';
import { emptyNft, type NftState } from '../nftables/state.ts';
import {
  type FrontendLines,
  linesOf,
  type ListKind,
  listsOf,
  frontendName,
  named,
  serviceKey,
  serviceOfFrontend,
  ServicesOfFrontends,
} from './of-frontends.ts';
import { printFrontend } from './of-rule.ts';
import { sameLines } from './plain-rules.ts';
import {
  ComparedStates,
  type Comparison,
  type ForwardingState,
  type FrontendChange,
  type Service,
  type ServiceChange,
} from './services.ts';

const nftOf = ({ nft = emptyNft }: ForwardingState): NftState => nft;

/**
 * Two states of mode nftables, which have no rules of other tools. A frontend is compared by its lines: with its endpoints only changes
 * what happens to packets that none of them serves.
 */
export class ComparisonOfFrontends<S extends ForwardingState> extends ComparedStates<S> implements Comparison<S> {
  /** Frontends of both states with different lines. */
  readonly #pairs: readonly FrontendPair[];
  readonly changed: readonly ServiceChange[];
  readonly added: readonly ServiceChange[];
  readonly removed: readonly ServiceChange[];

  constructor(from: S, to: S) {
    super(from, to, new ServicesOfFrontends(from));
    const [had, has] = [linesOf(from), linesOf(to)];
    const keys = differing(had, has);
    this.#pairs = keys.flatMap((key) => {
      const [before, after] = [had.get(key), has.get(key)];
      return before && after && !sameLines(before, after) ? [new FrontendPair(key, before, after)] : [];
    });
    this.changed = this.#pairs.flatMap(({ changes }) => changes);
    this.added = keys.filter((key) => !had.has(key)).flatMap((key) => onlyIn(key, has, 'after'));
    this.removed = keys.filter((key) => !has.has(key)).flatMap((key) => onlyIn(key, had, 'before'));
  }

  /** Whether nothing differs but endpoints, and what happens without them. */
  get #isOtherwiseSame(): boolean {
    const [a, b] = [nftOf(this.before), nftOf(this.after)];
    return (
      this.added.length + this.removed.length === 0 &&
      sameLines(a.settings, b.settings) &&
      this.#pairs.every(({ isFrameSame }) => isFrameSame)
    );
  }

  get isRestSame(): boolean {
    return this.#isOtherwiseSame && this.#pairs.every(({ isRefusalChanged }) => !isRefusalChanged);
  }

  /** Lists are Services and frontends in one. Only frontends without endpoints change by themselves. */
  get frontends(): readonly FrontendChange[] | undefined {
    if (!this.#isOtherwiseSame) return undefined;
    return this.#pairs
      .filter(({ isRefusalChanged }) => isRefusalChanged)
      .map(({ before }) => ({
        frontend: `${before.family} ${printFrontend(named(before))}`,
        served: { before: false, after: false },
        refused: { before: true, after: true },
      }));
  }

  withEndpoints(some: readonly ServiceChange[]): S {
    if (some.length === 0) return this.before;
    const taken = new Set(some);
    const lines = this.#pairs.map((pair) => [pair.key, pair.withEndpoints(taken)] as const);
    const [own, other] = [nftOf(this.before), nftOf(this.after)];
    const isWhole = this.isRestSame && lines.every(([key, text]) => text === other.frontends.get(key));
    if (isWhole) return { ...this.before, nft: other };
    // `Layered.of` wraps a plain map: without a change the state stays as it is.
    if (lines.every(([key, text]) => text === own.frontends.get(key))) return this.before;
    return { ...this.before, nft: { ...own, frontends: Layered.of(own.frontends).with(lines) } };
  }
}

/** The lists of a frontend that one of the states has. */
function onlyIn(key: string, all: FrontendLines, side: 'before' | 'after'): readonly ServiceChange[] {
  const lines = all.get(key) ?? [];
  const frontend = readFrontend(key, lines);
  return listsOf(frontend).map((list) => {
    const read = (at: 'before' | 'after'): Service | undefined =>
      at === side ? serviceOfFrontend(key, lines, list) : undefined;
    return {
      key: serviceKey(frontend, list),
      name: frontendName(frontend),
      get before() {
        return read('before');
      },
      get after() {
        return read('after');
      },
      fits: false,
    };
  });
}

/** A frontend of both states. */
class FrontendPair {
  readonly key: string;
  readonly lines: { readonly before: readonly string[]; readonly after: readonly string[] };
  readonly before: NftFrontend;
  readonly after: NftFrontend;
  readonly changes: readonly ServiceChange[];

  constructor(key: string, before: readonly string[], after: readonly string[]) {
    this.key = key;
    this.lines = { before, after };
    this.before = readFrontend(key, before);
    this.after = readFrontend(key, after);
    // An address may move to another node, where the endpoint is the same.
    const isMoved = !sameMembers(this.before.here ?? [], this.after.here ?? []);
    // A list that only one of them has is no change of endpoints: the frontend's frame differs, too.
    this.changes = (['all', 'local'] as const)
      .filter((list) => (list === 'all' && isMoved) || !sameMembers(this.before[words[list]], this.after[words[list]]))
      .map((list) => listChange(this, list));
  }

  /** Whether all is the same that endpoints do not decide, and the frontend is refused exactly where it is not served. */
  get isFrameSame(): boolean {
    const frame = ({ isClusterIP, outside, affinitySeconds, scheduler, ranges }: NftFrontend): string =>
      JSON.stringify([isClusterIP, outside, affinitySeconds, scheduler, ranges]);
    if (frame(this.before) !== frame(this.after) || !this.areWeightsSame) return false;
    return isSameShape(this.before, this.after)
      ? this.before.none === this.after.none || this.isRefusalChanged
      : isRefusedAsWritten(this.after);
  }

  /**
   * Whether endpoints keep their weights, and new ones have a weight that the frontend has already; its first ones any. Weights are
   * reviewed by labels of nodes, which a node does not know: of new endpoints it can only know that others count as much.
   */
  get areWeightsSame(): boolean {
    const { before, after } = this;
    if (!before.weights && !after.weights) return true;
    const had = new Map([...before.endpoints, ...before.local].map((one) => [one, weightOf(before, one)]));
    const known = new Set(had.values());
    return [...after.endpoints, ...after.local].every((one) => {
      const weight = weightOf(after, one);
      return had.has(one) ? had.get(one) === weight : known.size === 0 || known.has(weight);
    });
  }

  /** Whether it has no endpoints in both states, and rejects its packets in one and drops them in the other. */
  get isRefusalChanged(): boolean {
    const { before, after } = this;
    const isUnserved =
      before.endpoints.length + before.local.length + after.endpoints.length + after.local.length === 0;
    return isUnserved && before.none !== after.none && before.none !== undefined && after.none !== undefined;
  }

  /** The lines before with the lists that are taken; `local` only with endpoints that the other list then has, too. */
  withEndpoints(taken: ReadonlySet<ServiceChange>): readonly string[] {
    const { before, after, lines } = this;
    const isTaken = (list: ListKind): boolean =>
      this.changes.some((one) => one.key === serviceKey(before, list) && taken.has(one));
    const endpoints = isTaken('all') ? after.endpoints : before.endpoints;
    const local = isTaken('local') && isWithin(after.local, before.local, endpoints) ? after.local : before.local;
    if (endpoints === before.endpoints && local === before.local) return lines.before;
    const isAfter = sameMembers(endpoints, after.endpoints) && sameMembers(local, after.local);
    if (this.isFrameSame && isAfter) return lines.after;
    const weights = new Map([...(after.weights ?? []), ...(before.weights ?? [])]);
    const { none: own, ...frame } = { ...before, endpoints, local, weights };
    const none = refusalOf(frame, after.none ?? own);
    const all = new Set([...(before.here ?? []), ...(after.here ?? [])]);
    const here = addressesHere(frame, (address) => all.has(address));
    return frontendLines({ ...frame, here, ...(none ? { none } : {}) });
  }
}

const weightOf = ({ weights }: NftFrontend, endpoint: string): number => weights?.get(endpoint) ?? 1;

const words = { all: 'endpoints', local: 'local' } as const satisfies Record<ListKind, keyof NftFrontend>;

/** A list of a frontend before and after. */
const listChange = (pair: FrontendPair, list: ListKind): ServiceChange => ({
  key: serviceKey(pair.before, list),
  get name() {
    return frontendName(pair.before);
  },
  get before() {
    return serviceOfFrontend(pair.key, pair.lines.before, list);
  },
  get after() {
    return serviceOfFrontend(pair.key, pair.lines.after, list);
  },
  /**
   * New endpoints have a port that the list has already; one of a list that was empty, a port of the other list. A new local endpoint is
   * also in the whole list. One that the whole list lost may stay: the last local endpoint is removed late.
   */
  get fits() {
    const { before, after, isFrameSame } = pair;
    if (!isFrameSame || !isWithin(after.local, before.local, after.endpoints)) return false;
    const [had, has] = [before[words[list]], after[words[list]]];
    const known = new Set((had.length > 0 ? had : [...before.endpoints, ...before.local]).map(portOf));
    return known.size === 0 || has.every((one) => known.has(portOf(one)));
  },
});

const portOf = (endpoint: string): string => endpoint.slice(endpoint.lastIndexOf(' ') + 1);

/** Whether all endpoints of a local list were in it before, or are in the whole list. */
function isWithin(local: readonly string[], before: readonly string[], endpoints: readonly string[]): boolean {
  const known = new Set([...before, ...endpoints]);
  return local.every((one) => known.has(one));
}

function sameMembers(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false;
  const members = new Set(a);
  return b.every((one) => members.has(one));
}

/** Whether the same of their lists are empty. */
const isSameShape = (a: NftFrontend, b: NftFrontend): boolean =>
  (a.endpoints.length === 0) === (b.endpoints.length === 0) && (a.local.length === 0) === (b.local.length === 0);

/**
 * What happens to the packets that a frontend does not serve, as files have it: without local endpoints they are dropped.
 * @param none where it has no endpoint at all
 * @returns undefined if it serves all packets
 */
function refusalOf({ outside, endpoints, local }: Omit<NftFrontend, 'none'>, none: NftFrontend['none']): typeof none {
  if (endpoints.length === 0) return none ?? 'refuse';
  return local.length === 0 && outside === 'local' ? 'drop' : undefined;
}

const isRefusedAsWritten = (frontend: NftFrontend): boolean => refusalOf(frontend, frontend.none) === frontend.none;
