import { perKey } from '../per-object.ts';
import { addAll } from '../add-all.ts';
import type { TableProgram } from '../link/program.ts';
import type { Rule } from '../rules/rule.ts';
import type { TraceFlow, Hook, HookName } from '../packet/flow.ts';
import { chanceOf, type ReadyRule, readyRules } from './match.ts';
import { TraceError } from '../packet/packet.ts';

/** Deeper than any program that the kernel accepts: it refuses chains that form a loop. */
const depthMax = 64;

/** The flows that leave a chain. */
interface Walked {
  /** They fell through or returned: the calling chain continues with its next rule. */
  readonly falling: readonly TraceFlow[];
  /** They have a verdict for the built-in chain. */
  readonly ended: readonly TraceFlow[];
}

/**
 * Sends flows through our jumps of one built-in chain.
 * @returns every flow that comes out; a rule that matches with some probability splits a flow into two
 */
export function walkHook(table: TableProgram, flows: readonly TraceFlow[], hook: Hook): readonly TraceFlow[] {
  const { falling, ended } = walk({ table, hook, depth: 0 }, jumpsOf(table.jumps, hook.name), flows);
  return [...falling, ...ended];
}

const sorted = perKey<readonly string[], readonly string[]>();

/** The jumps of one built-in chain, one list, so that its rules are parsed once. */
const jumpsOf = (jumps: readonly string[], name: HookName): readonly string[] =>
  sorted(jumps, name, () => jumps.filter((jump) => jump.startsWith(`-A ${name} `)));

interface ChainWalk {
  readonly table: TableProgram;
  readonly hook: Hook;
  readonly depth: number;
}

function walk(at: ChainWalk, lines: readonly string[], flows: readonly TraceFlow[]): Walked {
  if (at.depth > depthMax) throw new TraceError(`Cannot trace ${at.hook.table} ${at.hook.name}: chains form a loop`);
  const returned: TraceFlow[] = [];
  const ended: TraceFlow[] = [];
  let falling = flows;
  for (const ready of readyRules(lines, at.hook)) {
    if (falling.length === 0) break;
    const next: TraceFlow[] = [];
    const matched: TraceFlow[] = [];
    for (const flow of falling) {
      const chance = chanceOf(ready, flow, at.hook);
      if (chance < 1) next.push(chance === 0 ? flow : { ...flow, probability: flow.probability * (1 - chance) });
      if (chance > 0) matched.push(hit(flow, chance, ready, at.hook));
    }
    if (matched.length > 0) applyTarget(at, ready, matched, { next, returned, ended });
    falling = next;
  }
  return { falling: [...falling, ...returned], ended };
}

/** The lists that a target appends flows to. */
interface FlowSinks {
  readonly next: TraceFlow[];
  readonly returned: TraceFlow[];
  readonly ended: TraceFlow[];
}

function applyTarget(at: ChainWalk, ready: ReadyRule, flows: readonly TraceFlow[], sinks: FlowSinks): void {
  const { target } = ready.rule;
  switch (target?.kind) {
    case undefined:
      addAll(sinks.next, flows);
      break;
    case 'jump':
    case 'goto': {
      // All flows at once: a chain is walked once for the many paths to it.
      const inner = walk({ ...at, depth: at.depth + 1 }, linesOf(at, target.chain, ready), flows);
      // Flows that return from -g continue in the caller of this chain.
      addAll(target.kind === 'jump' ? sinks.next : sinks.returned, inner.falling);
      addAll(sinks.ended, inner.ended);
      break;
    }
    case 'return':
      addAll(sinks.returned, flows);
      break;
    case 'mark':
      for (const flow of flows) {
        sinks.next.push({ ...flow, mark: ((flow.mark & ~target.mask) ^ target.value) >>> 0 });
      }
      break;
    case 'accept':
    case 'drop':
    case 'reject':
    case 'masquerade':
    case 'dnat':
      for (const flow of flows) sinks.ended.push(end(at, ready, target, flow));
  }
}

type TerminalTarget = Exclude<NonNullable<Rule['target']>, { kind: 'jump' | 'goto' | 'return' | 'mark' }>;

/** A flow after a terminal target. @throws TraceError for a target that the kernel would refuse in this chain */
function end(at: ChainWalk, ready: ReadyRule, target: TerminalTarget, flow: TraceFlow): TraceFlow {
  const { table, name } = at.hook;
  // Created only when thrown: an Error captures the stack.
  const misplaced = (): TraceError =>
    new TraceError(`Cannot trace rule "${ready.text}": its target is not valid in ${table} ${name}`);
  if (target.kind === 'accept') return { ...flow, verdict: 'accept', accepted: flow.accepted || table === 'filter' };
  if (target.kind === 'drop' || target.kind === 'reject') {
    if (table !== 'filter') throw misplaced();
    return { ...flow, verdict: target.kind };
  }
  if (target.kind === 'masquerade') {
    if (table !== 'nat' || name !== 'POSTROUTING') throw misplaced();
    return { ...flow, verdict: 'accept', masquerade: true };
  }
  const { translation } = ready;
  if (table !== 'nat' || (name !== 'PREROUTING' && name !== 'OUTPUT') || !translation) throw misplaced();
  return { ...flow, verdict: 'accept', destination: translation, port: target.port, translated: true };
}

function linesOf(at: ChainWalk, chain: string, ready: ReadyRule): readonly string[] {
  const lines = at.table.chains.get(chain);
  if (!lines) throw new TraceError(`Cannot trace rule "${ready.text}": there is no chain ${chain} in ${at.hook.table}`);
  return lines;
}

function hit(flow: TraceFlow, chance: number, ready: ReadyRule, hook: Hook): TraceFlow {
  const trail = { hit: ready.hits[hook.table], before: flow.trail };
  return { ...flow, trail, probability: flow.probability * chance };
}
