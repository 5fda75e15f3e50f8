import {
  addAll,
  canonicalRule,
  compareText,
  type Family,
  type FamilyProgram,
  isRuleError,
  printNft,
  printProgram,
  printRule,
  readRule,
  switches,
  type SysctlKey,
  type TableName,
  targetOf,
} from '@sluice/netfilter';
import { limits } from '../../limits.ts';
import { KernelError } from '../../ports/failure.ts';
import type { ChainNames, ChainRules, Kernel, Step, Switch, SwitchState, TrackedFlow } from '../../ports/kernel.ts';
import { familiesOf, type NodeState, type Observed, type ObservedFamily } from '../../ports/node-state.ts';
import { Interrupted } from '../../apply/transaction/restore.ts';
import { EitherSwitch } from '../either-switch.ts';
import { NftSwitch } from '../nft/nft-switch.ts';
import { readSave } from '../save.fixture.ts';
import { FakeIpvs } from './ipvs-fake.fixture.ts';
import { FakeNft } from './nft-fake.fixture.ts';

/** The sets of a kernel in memory, with their timeouts. */
class FakeSwitch implements Switch {
  readonly #nowMs: () => number;
  readonly #isNamed: (set: string) => boolean;
  /** When each table's entries expire, by its set; undefined: no entries. */
  #sets: Map<string, number | undefined> | undefined;

  /**
   * @param nowMs the kernel's clock
   * @param isNamed whether a rule names a set
   */
  constructor(nowMs: () => number, isNamed: (set: string) => boolean) {
    this.#nowMs = nowMs;
    this.#isNamed = isNamed;
  }

  /** Whether a set of this name exists. */
  has(set: string): boolean {
    return this.#sets?.has(set) ?? false;
  }

  /** Whether all packets match a set. */
  holds(set: string): boolean {
    return (this.#sets?.get(set) ?? -Infinity) > this.#nowMs();
  }

  async look(): Promise<Readonly<Record<TableName, SwitchState>> | undefined> {
    return this.#sets && { nat: this.#switchState('nat'), filter: this.#switchState('filter') };
  }

  #switchState(table: TableName): SwitchState {
    if (!this.holds(switches[table])) return 'off';
    return this.#sets?.get(switches[table]) === Infinity ? 'pinned' : 'on';
  }

  async make(): Promise<void> {
    this.#sets ??= new Map(Object.values(switches).map((name) => [name, undefined]));
  }

  async on(seconds: number): Promise<void> {
    if (!this.#sets) throw new KernelError('fake ipset', `there is no set ${switches.filter}`, 'refused');
    const until = (plus: number): number => (seconds === 0 ? Infinity : this.#nowMs() + (seconds + plus) * 1000);
    this.#sets.set(switches.filter, until(limits.deadmanFilterSeconds));
    this.#sets.set(switches.nat, until(0));
  }

  async off(table: TableName): Promise<void> {
    this.#sets?.set(switches[table], undefined);
  }

  async remove(): Promise<void> {
    const named = [...(this.#sets?.keys() ?? [])].find(this.#isNamed);
    if (named !== undefined) throw new KernelError('fake ipset', `a rule names ${named}`, 'refused');
    this.#sets = undefined;
  }

  /** A reboot removes all sets. */
  clear(): void {
    this.#sets = undefined;
  }
}

type FakeChains = Map<string, { builtIn: boolean; rules: string[] }>;
type FakeTables = Record<TableName, FakeChains>;

const builtIns = {
  filter: ['INPUT', 'FORWARD', 'OUTPUT'],
  nat: ['PREROUTING', 'INPUT', 'OUTPUT', 'POSTROUTING'],
} as const;
/** Targets that the kernel accepts in one table only. */
const onlyIn: Readonly<Record<string, TableName>> = { DNAT: 'nat', MASQUERADE: 'nat', REJECT: 'filter' };
const targets: ReadonlySet<string> = new Set(['ACCEPT', 'DROP', 'RETURN', 'REJECT', 'MARK', 'DNAT', 'MASQUERADE']);

/** The initial state of a fake kernel: text as iptables-save prints it. */
export interface FakeStart {
  readonly rules?: { readonly [F in Family]?: string };
  readonly sysctls?: Readonly<Partial<Record<SysctlKey, number>>>;
  /** The kernel's clock, for timeouts of sets. */
  readonly nowMs?: () => number;
  /** A node without ipset. */
  readonly withoutSwitch?: boolean;
  /** A kernel without `xt_bpf`: it refuses rules that use it. */
  readonly withoutBpf?: boolean;
}

/**
 * A kernel in memory. It reads the same payloads as `iptables-restore --noflush`, commits them table by table, and prints rules in the form
 * of iptables-save. It passes the same contract tests as the real one: test/netns/kernel.contract.ts.
 */
export class FakeKernel implements Kernel {
  readonly slowWithManyChains: boolean = false;
  readonly ipvs = new FakeIpvs({ ipv4: ['192.0.2.11'] });
  /** Applied steps, in order. */
  readonly taken: Step[] = [];
  readonly nft: FakeNft;
  readonly switch: Switch;
  /** The sets of layout `tree`. */
  readonly ipset: FakeSwitch | undefined;
  knowsBpf: boolean;
  /** Whether kube-proxy in mode nftables left its table. */
  hasProxyTable = false;
  /** Flows that were to be forgotten. */
  readonly forgotten: TrackedFlow[] = [];
  /** UDP connections, each by its flow, which a test sets. */
  readonly tracked: TrackedFlow[] = [];
  readonly #families: Record<Family, FakeTables>;
  readonly #sysctls: Map<SysctlKey, number>;
  #hashSize = 16_384;
  #loads = 0;

  constructor(start: FakeStart = {}) {
    this.#families = { ipv4: tablesFrom('ipv4', start.rules?.ipv4), ipv6: tablesFrom('ipv6', start.rules?.ipv6) };
    this.#sysctls = new Map(Object.entries(start.sysctls ?? {}) as [SysctlKey, number][]);
    this.knowsBpf = !(start.withoutBpf ?? false);
    const isNamed = (set: string): boolean =>
      (['ipv4', 'ipv6'] as const).some((family) => this.save(family).includes(` --match-set ${set} `));
    const nowMs = start.nowMs ?? (() => 0);
    this.nft = new FakeNft(nowMs);
    this.ipset = start.withoutSwitch ? undefined : new FakeSwitch(nowMs, isNamed);
    const ofNft = new NftSwitch(this.nft, () => []);
    this.switch = this.ipset ? new EitherSwitch(this.ipset, ofNft) : ofNft;
  }

  /** A reboot, maybe with another kernel: nothing is left. */
  reboot({ withoutBpf = !this.knowsBpf }: Pick<FakeStart, 'withoutBpf'> = {}): void {
    this.knowsBpf = !withoutBpf;
    this.#loads += 1;
    for (const family of ['ipv4', 'ipv6'] as const) this.#families[family] = tablesFrom(family, undefined);
    this.ipset?.clear();
    this.nft.clear();
    this.ipvs.clear();
  }

  async observe(
    families: readonly Family[],
    known?: Pick<NodeState, 'families'>,
    interrupt?: AbortSignal,
  ): Promise<Observed> {
    if (interrupt?.aborted === true) throw new Interrupted();
    const observed: { [F in Family]?: ObservedFamily } = {};
    for (const family of families) observed[family] = readSave(this.save(family), known?.families[family]);
    return observed;
  }

  async changeCount(): Promise<string | undefined> {
    return `${this.#loads}:${this.nft.changes}`;
  }

  /** The output of iptables-save. */
  save(family: Family): string {
    const tables = this.#families[family];
    return (['filter', 'nat'] as const).map((table) => printTable(table, tables[table])).join('');
  }

  async observeChains(family: Family, chains: ChainNames): Promise<ChainRules> {
    const read = (table: TableName): ReadonlyMap<string, readonly string[]> => {
      const held = this.#families[family][table];
      const known = (chains[table] ?? []).filter((name) => held.has(name));
      return new Map(known.map((name) => [name, [...(held.get(name)?.rules ?? [])]]));
    };
    return { filter: read('filter'), nat: read('nat') };
  }

  async apply(step: Step): Promise<void> {
    if (step.kind === 'restore-table') this.load(step.family, step.text);
    else if (step.kind === 'set-sysctl') this.#sysctls.set(step.key, step.value);
    else if (step.kind === 'raise-hashsize') this.#hashSize = Math.max(this.#hashSize, step.value);
    else if (step.kind === 'nft') await this.nft.apply(step);
    else await this.ipvs.apply(step);
    this.taken.push(step);
  }

  /** `iptables-restore --noflush` by any program: each table as a whole or not at all. */
  load(family: Family, text: string): void {
    const tables = this.#families[family];
    if (!this.knowsBpf && text.includes(' -m bpf ')) throw refused('the kernel has no match bpf');
    for (const part of text.split(/(?<=^COMMIT\n)/m)) {
      for (const [, set = ''] of part.matchAll(/ --match-set (\S+) /g))
        if (isSwitch(set) && !this.ipset?.has(set)) throw refused(`set ${set} does not exist`);
      const table = /^\*(filter|nat)\n/.exec(part)?.[1] as TableName | undefined;
      if (table === undefined || !part.endsWith('COMMIT\n'))
        throw refused('the text is no table from its name to COMMIT');
      this.#loads += 1;
      tables[table] = commit(family, table, tables[table], part.trimEnd().split('\n').slice(1, -1));
    }
  }

  async rehearse(state: NodeState): Promise<void> {
    const scratch = new FakeKernel({ withoutBpf: !this.knowsBpf });
    for (const family of familiesOf(state)) scratch.load(family, printProgram(state.families[family] as FamilyProgram));
    if (state.nft) await scratch.nft.load(printNft(state.nft));
  }

  async readSysctl(key: SysctlKey): Promise<number | undefined> {
    return this.#sysctls.get(key);
  }

  async readHashSize(): Promise<number | undefined> {
    return this.#hashSize;
  }

  async proxyTraces(): Promise<{ readonly ipvs: boolean; readonly nftables: boolean }> {
    return { ipvs: (await this.ipvs.observe()).bound !== undefined, nftables: this.hasProxyTable };
  }

  async forgetFlows(flows: readonly TrackedFlow[], found?: (connections: number) => void): Promise<number> {
    addAll(this.forgotten, flows);
    const gone = new Set(flows.map((flow) => JSON.stringify(flow)));
    const left = this.tracked.filter((flow) => !gone.has(JSON.stringify(flow)));
    const count = this.tracked.length - left.length;
    found?.(count);
    this.tracked.splice(0, Infinity, ...left);
    return count;
  }
}

const isSwitch = (set: string): boolean => Object.values<string>(switches).includes(set);

function refused(why: string): KernelError {
  return new KernelError('fake iptables-restore', why, 'refused');
}

function tablesFrom(family: Family, text: string | undefined): FakeTables {
  const empty = (table: TableName): FakeChains =>
    new Map(builtIns[table].map((name) => [name, { builtIn: true, rules: [] as string[] }]));
  const tables: FakeTables = { filter: empty('filter'), nat: empty('nat') };
  if (text === undefined) return tables;
  const read = readSave(text);
  for (const table of ['filter', 'nat'] as const) {
    for (const [name, { builtIn, rules }] of read[table].chains)
      tables[table].set(name, { builtIn, rules: rules.map((rule) => spell(family, rule)) });
  }
  return tables;
}

function printTable(table: TableName, chains: FakeChains): string {
  const sorted = [...chains].toSorted(
    ([a, one], [b, other]) => Number(other.builtIn) - Number(one.builtIn) || (one.builtIn ? 0 : compareText(a, b)),
  );
  const declared = sorted.map(([name, { builtIn }]) => `:${name} ${builtIn ? 'ACCEPT' : '-'} [0:0]\n`);
  const rules = sorted.flatMap(([, chain]) => chain.rules.map((rule) => `${rule}\n`));
  return `*${table}\n${declared.join('')}${rules.join('')}COMMIT\n`;
}

/** The table after the lines, or a KernelError and no change. */
function commit(family: Family, table: TableName, before: FakeChains, lines: readonly string[]): FakeChains {
  const chains: FakeChains = new Map([...before].map(([name, chain]) => [name, { ...chain, rules: [...chain.rules] }]));
  for (const line of lines) execute(family, chains, line);
  for (const [name, chain] of chains) for (const rule of chain.rules) check(table, chains, name, rule);
  return chains;
}

function execute(family: Family, chains: FakeChains, line: string): void {
  const declared = /^:(\S+) - \[0:0\]$/.exec(line)?.[1];
  if (declared !== undefined) {
    if (chains.get(declared)?.builtIn) throw refused(`${declared} is built in`);
    chains.set(declared, { builtIn: false, rules: [] });
    return;
  }
  const [command = '', name = '', ...rest] = line.split(' ');
  const chain = chains.get(name);
  if (!chain) throw refused(`there is no chain ${name}: ${line}`);
  const words = command === '-I' && /^\d+$/.test(rest[0] ?? '') ? rest.slice(1) : rest;
  const rule = spell(family, `-A ${name} ${words.join(' ')}`.trimEnd());
  if (command === '-A') chain.rules.push(rule);
  else if (command === '-I') chain.rules.splice(words === rest ? 0 : Number(rest[0]) - 1, 0, rule);
  else if (command === '-D') removeRule(chain.rules, rule);
  else if (command === '-X' && chain.rules.length === 0 && !chain.builtIn) chains.delete(name);
  else throw refused(`the line is not taken: ${line}`);
}

/** In the spelling of iptables-save. */
function spell(family: Family, text: string): string {
  const rule = readRule(text, family);
  return isRuleError(rule) ? canonicalRule(text) : printRule(rule, family);
}

function removeRule(rules: string[], rule: string): void {
  const at = rules.indexOf(rule);
  if (at < 0) throw refused(`there is no such rule: ${rule}`);
  rules.splice(at, 1);
}

/** Refuses a rule that leads to a missing chain, or whose target is not valid in the table. */
function check(table: TableName, chains: FakeChains, chain: string, rule: string): void {
  const target = targetOf(rule);
  if (target === undefined || chains.has(target)) return;
  if (!targets.has(target)) throw refused(`a rule of ${chain} leads to ${target}, which is not there`);
  if ((onlyIn[target] ?? table) !== table) throw refused(`${target} is not taken in table ${table}`);
}
