import type { Family, TableName } from '../family.ts';
import type { TraceFlow, HookName } from '../packet/flow.ts';
import { ownerOf, ownerOfPolicy } from './owners.ts';
import type { BaseChain, Effect, LiveChain, LiveHook, LiveRule, LiveTable } from './rule.ts';
import { walkBase } from './walk.ts';

interface PlacedBase {
  readonly table: LiveTable;
  readonly base: BaseChain;
}

/** Above it chains of OUTPUT come after the translation of destinations (`NF_IP_PRI_NAT_DST`), and after virtual servers. */
const dnatPriority = -100;
/** `NF_IP_PRI_NAT_SRC` */
const snatPriority = 100;

/** In modes iptables and ipvs kube-proxy accepts in it what it marked for masquerading (`pkg/proxy/iptables/proxier.go`). */
export const forwardAccepts = 'KUBE-FORWARD';

/** Whether rules of other programs, in a chain or in one that it leads to, may refuse a packet, or mark it for others that do. */
function mayRefuse({ chains }: Pick<LiveTable, 'chains'>, name: string, met = new Set<string>()): boolean {
  if (met.has(name)) return false;
  met.add(name);
  const refuses = (effect: Effect): boolean => {
    if (effect.kind === 'jump' || effect.kind === 'goto') return mayRefuse({ chains }, effect.chain, met);
    if (effect.kind === 'sequence') return effect.effects.some(refuses);
    return !['none', 'return', 'accept'].includes(effect.kind);
  };
  return (
    chains
      .get(name)
      ?.rules()
      .some(({ isProxys, effect }) => !isProxys && refuses(effect)) === true
  );
}

/** All tables of a family that packets meet, in the order of the kernel. */
export class LiveTables {
  readonly family: Family;
  readonly tables: readonly LiveTable[];
  readonly #byHook = new Map<HookName, readonly PlacedBase[]>();
  /** Pairs of base chains whose order is not known: they have one hook and priority. Which comes first depends on who made it first. */
  readonly ties: readonly string[];

  /** Whether packets meet no rule here, and no policy that drops. */
  readonly isEmpty: boolean;

  /** @param tables in the order in which those with one priority are traversed */
  constructor(family: Family, tables: readonly LiveTable[]) {
    this.family = family;
    this.tables = tables;
    const all = tables.flatMap((table) => table.bases.map((base) => ({ table, base })));
    for (const [name, list] of Map.groupBy(all, ({ base }) => base.hook))
      this.#byHook.set(
        name,
        list.toSorted((a, b) => placeOf(a.base) - placeOf(b.base) || a.base.priority - b.base.priority),
      );
    this.ties = tiesOf(all);
    this.isEmpty = all.every(
      ({ table, base }) => base.policy === 'accept' && (table.chains.get(base.chain)?.rules() ?? []).length === 0,
    );
  }

  /** The same tables, with those of one priority in the other order. */
  reversed(): LiveTables {
    return new LiveTables(this.family, this.tables.toReversed());
  }

  /**
   * Without what other programs refuse, mark or leave untracked, where their owner is known (`owners.ts`): those rules stay when Services
   * move, so that they treat packets alike before and after. What they accept and translate is kept: its order with other rules counts.
   */
  withoutOwned(): LiveTables {
    return new LiveTables(
      this.family,
      this.tables.map((table): LiveTable => {
        const isNat = table.bases.some(({ type }) => type === 'nat');
        const closed = table.bases.filter((base) => base.policy === 'drop' || hasEnd(table.chains.get(base.chain)));
        const ends = new Set(closed.flatMap((base) => (isOwnedPolicy(table, base) ? [base.chain] : [])));
        const chains = new Map(
          [...table.chains].map(([name, chain]) => [name, withoutOwnedIn(chain, isNat, ends.has(name))]),
        );
        const bases = table.bases.map((base) =>
          base.policy === 'drop' && ends.has(base.chain) ? { ...base, policy: 'accept' as const } : base,
        );
        return { ...table, chains, bases };
      }),
    );
  }

  /** Without what a kube-proxy accepts of forwarded packets; undefined: nothing else in these tables refuses any, or none has its chain. */
  withoutForwardAccepts(): LiveTables | undefined {
    const own = this.tables.filter(({ chains }) => chains.has(forwardAccepts));
    const isMet = own.some((table) =>
      table.bases.some(
        ({ hook, policy, chain }) => hook === 'FORWARD' && (policy === 'drop' || mayRefuse(table, chain)),
      ),
    );
    if (!isMet) return undefined;
    const tables = this.tables.map((table): LiveTable => {
      const chain = table.chains.get(forwardAccepts);
      if (!chain) return table;
      return { ...table, chains: new Map([...table.chains, [forwardAccepts, { ...chain, rules: () => [] }]]) };
    });
    return new LiveTables(this.family, tables);
  }

  /** What packets to the node itself meet behind the translation of their destination: replies to localhost have that address there. */
  behindTranslation(): LiveTables {
    const tables = this.tables.map((table): LiveTable => {
      const isBehind = (base: BaseChain): boolean =>
        base.hook === 'INPUT' || (base.hook === 'PREROUTING' && placeOf(base) > dnatPriority);
      return { ...table, bases: table.bases.filter(isBehind) };
    });
    return new LiveTables(this.family, tables);
  }

  /** What translates sources after routing, of other programs alone. */
  foreignSourceNat(): LiveTables {
    const tables = this.tables.map((table): LiveTable => {
      const chains = new Map([...table.chains].map(([name, chain]) => [name, withoutProxys(chain)]));
      const bases = table.bases.filter(({ hook, type }) => hook === 'POSTROUTING' && type === 'nat');
      return { ...table, chains, bases };
    });
    return new LiveTables(this.family, tables);
  }

  /**
   * Sends flows through the base chains of a hook. Of OUTPUT those of stage `nat` come first, then the rest.
   * @param flows without a verdict
   */
  pass(flows: readonly TraceFlow[], stage: TableName, at: Omit<LiveHook, 'type' | 'priority'>): readonly TraceFlow[] {
    let open = flows;
    const done: TraceFlow[] = [];
    for (const { table, base } of this.#byHook.get(at.name) ?? []) {
      if (at.name === 'OUTPUT' && placeOf(base) <= dnatPriority !== (stage === 'nat')) continue;
      const hook = { ...at, type: base.type, priority: base.priority };
      const next: TraceFlow[] = [];
      for (const flow of open) {
        for (const one of base.type === 'nat' && !meetsNat(flow, at) ? [flow] : walkBase(table, base, flow, hook)) {
          if (one.verdict === 'drop' || one.verdict === 'reject') done.push(one);
          else next.push(one.verdict === undefined ? one : { ...one, verdict: undefined });
        }
      }
      open = next;
    }
    return [...done, ...open];
  }
}

/**
 * The kernel asks nat about each end of a new connection once: later packets are treated as the first, and those of no connection pass
 * (`nf_nat_inet_fn` in `net/netfilter/nf_nat_core.c`). What the node sends to itself has been in POSTROUTING, so INPUT has nothing left to do.
 */
function meetsNat(
  { untracked, masquerade, translated }: TraceFlow,
  { name, in: incoming, state }: Pick<LiveHook, 'name' | 'in' | 'state'>,
): boolean {
  if (untracked || state === 'ESTABLISHED' || state === 'INVALID') return false;
  if (name === 'INPUT') return incoming !== 'lo';
  return !(name === 'POSTROUTING' ? masquerade : translated);
}

/**
 * The priority at which a base chain meets packets. All nat chains of a hook are called where nat is (`nf_nat_ipv4_ops` in
 * `net/netfilter/nf_nat_proto.c`): their own priority orders them among themselves.
 */
function placeOf({ type, hook, priority }: BaseChain): number {
  if (type !== 'nat') return priority;
  return hook === 'PREROUTING' || hook === 'OUTPUT' ? dnatPriority : snatPriority;
}

function withoutProxys(chain: LiveChain): LiveChain {
  let kept: readonly LiveRule[] | undefined;
  return { name: chain.name, rules: () => (kept ??= chain.rules().filter(({ isProxys }) => !isProxys)) };
}

const hasEnd = (chain: LiveChain | undefined): boolean => chain?.rules().some(isEnd) === true;

/** A rule of another program that refuses all packets. */
const isEnd = ({ isProxys, tests, sources, effect }: LiveRule): boolean =>
  !isProxys && tests.length === 0 && sources.length === 0 && (effect.kind === 'drop' || effect.kind === 'reject');

/** @param isEnded the owner of rules here also ends the chain with a rule for all packets */
function withoutOwnedIn(chain: LiveChain, isNat: boolean, isEnded: boolean): LiveChain {
  let kept: readonly LiveRule[] | undefined;
  const isLeftOut = (rule: LiveRule): boolean => {
    if (isEnded && isEnd(rule)) return true;
    const { isProxys, hit, effect } = rule;
    const owner = !isProxys && staysAlike(effect, isNat) ? ownerOf(hit) : undefined;
    return owner !== undefined && owner.isInBundles !== true;
  };
  return { ...chain, rules: () => (kept ??= chain.rules().filter((rule) => !isLeftOut(rule))) };
}

const refusing: ReadonlySet<Effect['kind']> = new Set([
  'drop',
  'reject',
  'mark',
  'untrack',
  'priority',
  'connection-mark',
  'save-mark',
  'restore-mark',
]);

function staysAlike(effect: Effect, isNat: boolean): boolean {
  if (effect.kind === 'unread') return effect.does !== 'translate';
  if (effect.kind === 'choose') return !isNat;
  if (effect.kind === 'sequence') return effect.effects.some((one) => staysAlike(one, isNat));
  return refusing.has(effect.kind);
}

function isOwnedPolicy(table: LiveTable, base: BaseChain): boolean {
  if (ownerOf(table.policyHit(base))) return true;
  const rules = [...table.chains.values()].flatMap((chain) => chain.rules());
  return ownerOfPolicy(rules.flatMap(({ isProxys, hit }) => (isProxys ? [] : [hit]))) !== undefined;
}

function tiesOf(all: readonly PlacedBase[]): readonly string[] {
  const used = all.filter(({ table, base }) => (table.chains.get(base.chain)?.rules() ?? []).length > 0);
  const groups = Map.groupBy(used, ({ base }) => `${base.hook} at priority ${base.priority} of type ${base.type}`);
  return [...groups].flatMap(([place, list]) =>
    list.length < 2 ? [] : [`${place}: ${list.map(({ table }) => table.title).join(' and ')}`],
  );
}
