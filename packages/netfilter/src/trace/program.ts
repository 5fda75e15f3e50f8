import type { Family, TableName } from '../family.ts';
import type { TableProgram } from '../link/program.ts';
import type { RuleContext } from '../live/iptables-options.ts';
import { readIptablesRule } from '../live/iptables-rule.ts';
import type { LiveChain, LiveHook, LiveRule, LiveSet, RuleNotes } from '../live/rule.ts';
import { walkBase, type WalkedTable } from '../live/walk.ts';
import type { HookName, TraceFlow } from '../packet/flow.ts';
import { TraceError } from '../packet/packet.ts';
import { perKey, perObject } from '../per-object.ts';
import { chainOf } from '../rules/line.ts';
import { isSwitch } from '../rules/parts.ts';
import { isBuiltInTarget } from '../rules/read-target.ts';

/** A hook of the kernel at which packets meet our rules of one table. */
interface ProgramHook extends Omit<LiveHook, 'type' | 'priority' | 'notes' | 'outOf'> {
  readonly table: TableName;
  /** In mode ipvs: the sets that rules match. */
  readonly sets: ReadonlyMap<string, LiveSet> | undefined;
  /** Names of the switches that are on. */
  readonly switches: ReadonlySet<string>;
}

/**
 * Sends flows through our jumps of one built-in chain.
 * @returns every flow that comes out; a rule that matches with some probability splits a flow into two
 * @throws TraceError for a rule that is not understood, or that the kernel would refuse where it is
 */
export function passProgram(program: TableProgram, flows: readonly TraceFlow[], at: ProgramHook): readonly TraceFlow[] {
  if (flows.length === 0 || jumpsOf(program.jumps, at.name).length === 0) return flows;
  const { table, name } = at;
  const base = {
    hook: name,
    priority: 0,
    type: table === 'nat' ? 'nat' : 'filter',
    chain: name,
    policy: 'accept',
  } as const;
  const setNamed = (set: string): LiveSet | undefined =>
    isSwitch(set) ? (at.switches.has(set) ? everySource : noSource) : at.sets?.get(set);
  const hook: LiveHook = {
    ...at,
    type: base.type,
    priority: 0,
    outOf: () => undefined,
    notes: strict,
    setNamed,
  };
  const walked = tablesOf[at.family][table](program);
  return flows.flatMap((flow) => {
    const passed = walkBase(walked, base, flow, hook);
    for (const one of passed) refuseMisplaced(flow, one, at);
    return passed;
  });
}

/** @throws TraceError for a target that the kernel would refuse in this chain */
function refuseMisplaced(
  before: TraceFlow,
  { verdict, masquerade, translated, trail }: TraceFlow,
  at: ProgramHook,
): void {
  const { table, name } = at;
  const translates = translated !== before.translated;
  const masquerades = masquerade !== before.masquerade;
  const isFine =
    table === 'filter'
      ? !translates && !masquerades
      : verdict !== 'drop' &&
        verdict !== 'reject' &&
        (!masquerades || name === 'POSTROUTING') &&
        (!translates || name === 'PREROUTING' || name === 'OUTPUT');
  if (!isFine)
    throw new TraceError(`Cannot trace rule "${trail?.hit.rule}": its target is not valid in ${table} ${name}`);
}

/** What the set of a switch that is on has, and of one that is off. */
const everySource: LiveSet = { type: 'hash:net', entries: new Set(['0.0.0.0/0', '::/0']) };
const noSource: LiveSet = { type: 'hash:net', entries: new Set() };

/** Nothing is taken for granted of our own rules, and no packet meets too many of them. */
const strict: RuleNotes = {
  doubts: {
    set: (rule, why) => {
      throw new TraceError(`Cannot trace rule "${rule.text}": ${why}`);
    },
  },
  untracking: { add: () => undefined },
  assumed: new Set(),
  met: { rules: Number.NEGATIVE_INFINITY },
};

/** A table with its jumps as chains of the hooks that they are in. */
function tableIn(family: Family, table: TableName): (program: TableProgram) => WalkedTable {
  const read = chainsIn(family, table);
  return perObject(({ chains, jumps }) => ({
    title: table,
    chains: {
      get: (chain) => {
        if (isHook(chain)) return read(jumpsOf(jumps, chain));
        const lines = chains.get(chain);
        return lines && read(lines);
      },
    },
    policyHit: ({ chain }) => ({ table, chain, rule: '' }),
  }));
}

const isHook = (chain: string): chain is HookName => hookNames.has(chain);
const hookNames: ReadonlySet<string> = new Set<HookName>(['PREROUTING', 'INPUT', 'FORWARD', 'OUTPUT', 'POSTROUTING']);

const sorted = perKey<readonly string[], readonly string[]>();

/** The jumps of one built-in chain, one list, so that its rules are read once. */
const jumpsOf = (jumps: readonly string[], name: HookName): readonly string[] =>
  sorted(jumps, name, () => jumps.filter((jump) => jump.startsWith(`-A ${name} `)));

/** Chains by their lines: those of a program that did not change since the last one are read once. */
function chainsIn(family: Family, table: TableName): (lines: readonly string[]) => LiveChain {
  const context: RuleContext = { family, hasChain: (name) => !isBuiltInTarget(name), sets: undefined };
  return perObject((lines) => {
    const chain = chainOf(lines[0] ?? '');
    let read: readonly LiveRule[] | undefined;
    const rules = (): readonly LiveRule[] =>
      (read ??= lines.map((rule) => readIptablesRule(rule, context, { table, chain, rule }, true)));
    return { name: chain, rules };
  });
}

const tablesOf = {
  ipv4: { filter: tableIn('ipv4', 'filter'), nat: tableIn('ipv4', 'nat') },
  ipv6: { filter: tableIn('ipv6', 'filter'), nat: tableIn('ipv6', 'nat') },
};
