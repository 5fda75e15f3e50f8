import { addAll } from '../add-all.ts';
import type { TableProgram } from '../link/program.ts';
import type { Rule } from '../rules/rule.ts';
import type { Flow, Hook, HookName } from './flow.ts';
import { chanceOf, type ReadyRule, readyRules } from './match.ts';
import { TraceError } from './packet.ts';

/** Deeper than any program that the kernel takes: it refuses chains that lead in a circle. */
const depthMax = 64;

/** Flows that come out of a chain. */
interface Walked {
  /** They fell through or returned: the calling chain goes on with its next rule. */
  readonly falling: readonly Flow[];
  /** A rule ended their walk through the built-in chain. */
  readonly ended: readonly Flow[];
}

/**
 * Leads flows through one built-in chain, as far as our rules stand in it.
 * @returns every flow that comes out; one that a rule matches with some probability comes out as two
 */
export function walkHook(table: TableProgram, flows: readonly Flow[], hook: Hook): readonly Flow[] {
  const { falling, ended } = walk({ table, hook, depth: 0 }, jumpsOf(table.jumps, hook.name), flows);
  return [...falling, ...ended];
}

const sorted = new WeakMap<readonly string[], Map<HookName, readonly string[]>>();

/** The jumps of one built-in chain: the same list each time, so that its rules are read once. */
function jumpsOf(jumps: readonly string[], name: HookName): readonly string[] {
  const known = sorted.get(jumps) ?? new Map<HookName, readonly string[]>();
  sorted.set(jumps, known);
  const own = known.get(name) ?? jumps.filter((jump) => jump.startsWith(`-A ${name} `));
  known.set(name, own);
  return own;
}

interface Walk {
  readonly table: TableProgram;
  readonly hook: Hook;
  readonly depth: number;
}

function walk(at: Walk, lines: readonly string[], flows: readonly Flow[]): Walked {
  if (at.depth > depthMax)
    throw new TraceError(`Cannot trace ${at.hook.table} ${at.hook.name}: chains lead in a circle`);
  const returned: Flow[] = [];
  const ended: Flow[] = [];
  let falling = flows;
  for (const ready of readyRules(lines, at.hook)) {
    if (falling.length === 0) break;
    const next: Flow[] = [];
    const met: Flow[] = [];
    for (const flow of falling) {
      const chance = chanceOf(ready, flow, at.hook);
      if (chance < 1) next.push(chance === 0 ? flow : { ...flow, probability: flow.probability * (1 - chance) });
      if (chance > 0) met.push(hit(flow, chance, ready, at.hook));
    }
    if (met.length > 0) obey(at, ready, met, { next, returned, ended });
    falling = next;
  }
  return { falling: [...falling, ...returned], ended };
}

/** Where a flow can go from a rule that matched it. */
interface Ways {
  readonly next: Flow[];
  readonly returned: Flow[];
  readonly ended: Flow[];
}

function obey(at: Walk, ready: ReadyRule, flows: readonly Flow[], ways: Ways): void {
  const { target } = ready.rule;
  switch (target?.kind) {
    case undefined:
      addAll(ways.next, flows);
      break;
    case 'jump':
    case 'goto': {
      // All of them at once: a chain is walked through once for the many ways that led to it.
      const inner = walk({ ...at, depth: at.depth + 1 }, linesOf(at, target.chain, ready), flows);
      // What comes back from -g goes on where this chain was called from.
      addAll(target.kind === 'jump' ? ways.next : ways.returned, inner.falling);
      addAll(ways.ended, inner.ended);
      break;
    }
    case 'return':
      addAll(ways.returned, flows);
      break;
    case 'mark':
      for (const flow of flows) {
        ways.next.push({ ...flow, mark: ((flow.mark & ~target.mask) ^ target.value) >>> 0 });
      }
      break;
    case 'accept':
    case 'drop':
    case 'reject':
    case 'masquerade':
    case 'dnat':
      for (const flow of flows) ways.ended.push(end(at, ready, target, flow));
  }
}

type Ending = Exclude<NonNullable<Rule['target']>, { kind: 'jump' | 'goto' | 'return' | 'mark' }>;

/** A flow after a target that ends the walk. Throws for a target that the kernel would not take in this place. */
function end(at: Walk, ready: ReadyRule, target: Ending, flow: Flow): Flow {
  const { table, name } = at.hook;
  // Made only when it is thrown: an error costs a walk through the stack.
  const misplaced = (): TraceError =>
    new TraceError(`Cannot trace rule "${ready.text}": its target has no place in ${table} ${name}`);
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

function linesOf(at: Walk, chain: string, ready: ReadyRule): readonly string[] {
  const lines = at.table.chains.get(chain);
  if (!lines) throw new TraceError(`Cannot trace rule "${ready.text}": there is no chain ${chain} in ${at.hook.table}`);
  return lines;
}

function hit(flow: Flow, chance: number, ready: ReadyRule, hook: Hook): Flow {
  const trail = { hit: ready.hits[hook.table], before: flow.trail };
  return { ...flow, trail, probability: flow.probability * chance };
}
