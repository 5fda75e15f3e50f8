import { ipvsConflicts } from '../ipvs/conflicts.ts';
import { type IpvsSeen, joinIpvsNames, ownedNames } from '../ipvs/values.ts';
import { limits } from '../limits.ts';
import type { AdmittedBundle } from './admit.ts';
import type { Outcome } from './outcome.ts';
import { flowChange, forgetAfter } from './flows.ts';
import { messageOf } from './message.ts';
import { describeStep, type Plan, plan } from './plan.ts';
import type { Fault, Flow, Generation, Intent, Ports, ProbeResult, Refusal } from './ports.ts';
import { adaptGoal, newNames, ownState } from './own.ts';
import { type ChainNames, chainNames, familiesOf, joinNames, type NodeState, type Observed } from './state.ts';
import { unlike } from './verify.ts';
import { leftVirtual, lookVirtual, type Virtual } from './virtual.ts';

/** What the kernel holds when a transaction begins. */
export interface Ground {
  /** The generation that stands: the way back. */
  readonly from: Generation;
  /** The kernel's state, equal to `from` as far as this kernel can have it. */
  readonly now: NodeState;
  /** The tables as a whole, for what foreign rules need; left out when `now` was verified before and nothing was read since. */
  readonly observed?: Observed;
  /** What mode ipvs held when it was seen last; left out: it is asked. */
  readonly ipvs?: IpvsSeen;
}

/** The outcome, and what the kernel holds now where that is known without looking. */
export interface Ending {
  readonly outcome: Outcome;
  readonly settled?: NodeState;
  /** What mode ipvs holds now, where it was looked at. */
  readonly ipvs?: IpvsSeen;
  /** The kernel did not take the change and was not looked at before: somebody else may have changed it since the last look. */
  readonly stale?: true;
}

/**
 * One transaction: the kernel goes from what it holds to what the bundle says, or back.
 *
 * The journal knows the way back before the first step is taken. Confirming is one durable write, and that write alone decides
 * whether the node boots the old or the new rules.
 */
export async function rollout(bundle: AdmittedBundle, ground: Ground, ports: Ports): Promise<Ending> {
  const { kernel, journal, probes, report } = ports;
  const wanted = withDropped(bundle.state, ground.from.state, journal.originals);
  const goal = adaptGoal(wanted, ground.observed ?? {}, chainNames(ground.from.state));
  const owned = chainNames(ground.from.state);
  const virtual = await lookVirtual(goal, owned, ports, ground.ipvs);
  const now = await withSysctls(ground.now, goal, ports);
  const conflicts = conflictsOf(goal, owned, virtual);
  if (conflicts) return { outcome: { kind: 'refused', refusal: conflicts }, settled: now };
  const change = plan(now, goal, kernel, virtual?.plan);
  if (change.steps.length === 0 && bundle.version === ground.from.version) {
    return { outcome: { kind: 'same', generation: ground.from }, settled: goal };
  }
  const refusal = await rehearse(bundle, change, ports);
  if (refusal) return { outcome: { kind: 'refused', refusal }, settled: now };
  const before = await probes.once();
  const intent = intentOf(bundle.version, ground.from, goal, now);
  await journal.begin(intent);
  const flows = flowChange({ ...now, ...ipvsOf(ground.from.state) }, goal);
  const failure = await attempt(change, goal, before, ports, owned, flows.old);
  if ('because' in failure && failure.kind === 'kernel' && !ground.observed) {
    const ending = await takeBack(failure.because, ground.from, intent, ports, 'process');
    return { ...ending, stale: true };
  }
  if ('because' in failure) {
    const ending = await takeBack(failure.because, ground.from, intent, ports);
    await forgetAfter(flows.fresh, ports);
    return ending;
  }
  try {
    const generation = await journal.confirm(bundle.version, bundle.state);
    const seen = failure.virtual ? { ipvs: failure.virtual.seen } : {};
    return { outcome: { kind: 'confirmed', generation, steps: change.steps.length }, settled: goal, ...seen };
  } catch (error) {
    report('confirm-failed', { because: String(error) });
    const ending = await takeBack(
      `the new generation cannot be stored: ${messageOf(error)}`,
      ground.from,
      intent,
      ports,
    );
    await forgetAfter(flows.fresh, ports);
    return ending;
  }
}

const ipvsOf = ({ ipvs }: NodeState): Pick<NodeState, 'ipvs'> => (ipvs ? { ipvs } : {});

/** Virtual servers and sets of the goal that somebody else made. */
function conflictsOf(goal: NodeState, owned: ChainNames, virtual: Virtual | undefined): Refusal | undefined {
  if (!virtual || !goal.ipvs) return undefined;
  const problems = ipvsConflicts(virtual.seen, goal.ipvs, ownedNames(joinIpvsNames(owned.ipvs)));
  return problems.length === 0 ? undefined : { problems };
}

/** The kernel's own opinion, before anything is touched. */
async function rehearse(bundle: AdmittedBundle, change: Plan, { rehearsal }: Ports): Promise<Refusal | undefined> {
  try {
    await rehearsal.ensure(bundle.state, change);
    return undefined;
  } catch (error) {
    const hint =
      'If the kernel lacks an extension, load its module or change the option of the profile that needs it; where namespaces cannot be created, set `rehearse: false` in sluiced.yaml';
    const message = `Cannot load the rules in a scratch namespace: ${messageOf(error)}`;
    return { problems: [{ code: 'NODE_REFUSES_RULES', level: 'error', message, hint }] };
  }
}

interface Failure {
  readonly kind: 'kernel' | 'health';
  readonly because: string;
}

/** Takes every step, then asks the kernel and the probes. Returns why it must be taken back, or what mode ipvs holds now. */
async function attempt(
  change: Plan,
  goal: NodeState,
  before: readonly ProbeResult[],
  ports: Ports,
  owned: ChainNames,
  stale: readonly Flow[],
): Promise<Failure | { readonly virtual: Virtual | undefined }> {
  let virtual: Virtual | undefined;
  try {
    await carryOut(change, ports);
    ports.report('in-kernel', { steps: change.steps.length });
    const left = await leftVirtual(goal, owned, ports);
    virtual = left.virtual;
    const difference = left.left ?? (await unlike(goal, change, ports.kernel));
    if (virtual) await ports.journal.keepDraining(virtual.plan.draining);
    if (difference !== undefined)
      return { kind: 'kernel', because: `the kernel does not hold what was loaded: ${difference}` };
  } catch (error) {
    return { kind: 'kernel', because: messageOf(error) };
  }
  await forgetAfter(stale, ports);
  const because = regression(before, await ports.probes.patiently());
  return because === undefined ? { virtual } : { kind: 'health', because };
}

/** Takes the steps in order. Throws at the first that the kernel does not take. */
export async function carryOut(
  change: Plan,
  { kernel, clock, report }: Pick<Ports, 'kernel' | 'clock' | 'report'>,
): Promise<void> {
  for (const step of change.steps) {
    if (step.kind === 'restore-table' && step.pauseMs !== undefined) await clock.sleep(step.pauseMs);
    report('step', { step: describeStep(step) });
    await kernel.apply(step);
  }
}

/** A probe that passed before the change and does not now. One that failed before is no fault of the change. */
function regression(before: readonly ProbeResult[], after: readonly ProbeResult[]): string | undefined {
  const passed = new Set(before.filter(({ healthy }) => healthy).map(({ name }) => name));
  const failed = after.filter(({ name, healthy }) => !healthy && passed.has(name));
  if (failed.length === 0) return undefined;
  return `health failed: ${failed.map(({ name, seen }) => `${name} (${seen})`).join(', ')}`;
}

/**
 * Puts the kernel back to the generation that stood and closes the transaction; holds the node when that cannot be done.
 * It plans from what the kernel really holds, so it is right from wherever the attempt stopped, and safe to repeat.
 */
export async function takeBack(
  because: string,
  from: Generation,
  intent: Intent,
  ports: Ports,
  fault: Fault = 'bundle',
): Promise<Ending> {
  const { journal, clock, report } = ports;
  report('rolling-back', { because });
  let why = '';
  for (let attempts = 1; attempts <= limits.rollbackAttemptsMax; attempts++) {
    try {
      const settled = await restore(wayBack(from, intent), joinNames(chainNames(from.state), intent.creates), ports);
      await journal.abandon(because, fault);
      return { outcome: { kind: 'rolled-back', because }, settled };
    } catch (error) {
      why = messageOf(error);
      report('rollback-failed', { attempt: attempts, because: why });
      if (attempts < limits.rollbackAttemptsMax) await clock.sleep(limits.rollbackIntervalMs * attempts);
    }
  }
  await journal.hold(`${because}; the way back failed: ${why}`);
  return { outcome: { kind: 'held', because, rollback: why } };
}

/** The state to go back to: the generation, and sysctls that it does not set as they were. */
export function wayBack(from: Generation, intent: Intent): NodeState {
  return { ...from.state, sysctls: new Map([...intent.sysctls, ...from.state.sysctls]) };
}

/**
 * Makes the kernel hold `goal`, from whatever it holds, and makes sure that it does.
 * @param owned chains that are ours besides those of the goal
 * @returns the goal as this kernel has it
 */
export async function restore(
  goal: NodeState,
  owned: ChainNames,
  ports: Omit<Ports, 'rehearsal' | 'probes'>,
): Promise<NodeState> {
  const { kernel } = ports;
  const names = joinNames(owned, chainNames(goal));
  const families = familiesOf({ families: goal.families }).concat(
    (['ipv4', 'ipv6'] as const).filter((family) => owned[family] && !goal.families[family]),
  );
  const look = async (): Promise<{ adapted: NodeState; change: Plan }> => {
    const observed = await kernel.observe(families);
    const adapted = adaptGoal(goal, observed, names);
    const virtual = await lookVirtual(adapted, names, ports);
    const now = await withSysctls({ families: ownState(observed, names, adapted), sysctls: new Map() }, adapted, ports);
    if (virtual) await ports.journal.keepDraining(virtual.plan.draining);
    return { adapted, change: plan(now, adapted, kernel, virtual?.plan) };
  };
  const first = await look();
  if (first.change.steps.length === 0) return first.adapted;
  await carryOut(first.change, ports);
  const second = await look();
  if (second.change.steps.length === 0) return second.adapted;
  throw new Error(`the kernel still differs: ${second.change.steps.map(describeStep).join('; ')}`);
}

/** The state with the old values of sysctls that the state before it set and it does not. */
export function withDropped(state: NodeState, before: NodeState, originals: NodeState['sysctls']): NodeState {
  const dropped = [...originals].filter(([key]) => before.sysctls.has(key) && !state.sysctls.has(key));
  return dropped.length === 0 ? state : { ...state, sysctls: new Map([...dropped, ...state.sysctls]) };
}

/** The state with the values that the kernel has now for every sysctl of `goal`, and the hash size. */
export async function withSysctls(
  state: NodeState,
  goal: NodeState,
  { kernel }: Pick<Ports, 'kernel'>,
): Promise<NodeState> {
  const sysctls = new Map(state.sysctls);
  for (const key of goal.sysctls.keys()) {
    const value = await kernel.readSysctl(key);
    if (value === undefined) sysctls.delete(key);
    else sysctls.set(key, value);
  }
  const size = goal.conntrackHashSize === undefined ? undefined : await kernel.readHashSize();
  return { families: state.families, sysctls, ...(size === undefined ? {} : { conntrackHashSize: size }) };
}

function intentOf(version: string, from: Generation, goal: NodeState, now: NodeState): Intent {
  const foreign = [...goal.sysctls.keys()].filter((key) => !from.state.sysctls.has(key));
  const old = foreign.flatMap((key) => {
    const value = now.sysctls.get(key);
    return value === undefined ? [] : [[key, value] as const];
  });
  return { from: from.number, version, creates: newNames(goal, chainNames(from.state)), sysctls: new Map(old) };
}
