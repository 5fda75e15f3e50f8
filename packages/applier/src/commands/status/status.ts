import { setTimeout as sleep } from 'node:timers/promises';
import type { Accepted } from '@sluice/bundle';
import { document } from '@sluice/cli';
import { compareText } from '@sluice/netfilter';
import { CommandError } from '../../command-error.ts';
import type { SluicedConfig } from '../../config.ts';
import { connectToDaemon } from '../../daemon/control/ask.ts';
import type { ControlStatus } from '../../daemon/control/protocol.ts';
import { ReleaseFloor } from '../../inbox/release-floor.ts';
import type { Run } from '../../kernel/command.ts';
import { runChildren } from '../../kernel/run.ts';
import { findTool } from '../../kernel/tools.ts';
import { limits } from '../../limits.ts';
import { describePartial, exitCodes } from '../../ports/outcome.ts';
import { Damage } from '../../state/damage.ts';
import { GenerationNotes } from '../../state/generation-notes.ts';
import { peek } from '../../state/peek.ts';
import type { NodeRecord } from '../../state/record.ts';
import { backOffUntil } from '../../state/transitions.ts';
import { askDaemon, controlStatus } from '../session/daemon-status.ts';
import { type CommonOptions, loadConfig, pageOf, type Terminal } from '../terminal/terminal.ts';
import { compareKernel } from './compare.ts';
import { newestRelease } from './newest.ts';
import { printStatus } from './print-status.ts';
import type { DaemonStatus, NextEvent, StatusSummary } from './summary.ts';

/**
 * What `sluiced status --wait` waits for. `settled`: the directory was looked at since, and no change is in progress. `confirmed`: the
 * same, and the newest release is active. `healthy`: as `/healthz` says.
 */
type Goal = 'confirmed' | 'healthy' | 'settled';

/** How a wait ended, in the document of `status -o json`. */
interface WaitEnding {
  readonly goal: Goal;
  readonly isReached: boolean;
  /** Why not; null where it is reached. */
  readonly because: string | null;
  readonly exitCode: number;
}

/**
 * Waits for a goal, or for a fate of the release after which it cannot come by itself.
 * @param seconds how long at most; then the exit code is 1
 */
async function waitFor(goal: Goal, seconds: number, config: Pick<SluicedConfig, 'state'>): Promise<WaitEnding> {
  const beganMs = Date.now();
  const endMs = performance.now() + seconds * 1000;
  let isAsked = false;
  for (;;) {
    const seen = await controlStatus(config.state);
    if (seen?.report && !isAsked) {
      await (await connectToDaemon(config.state))?.look();
      isAsked = true;
    }
    const judged = judge(goal, seen, beganMs);
    if (typeof judged !== 'string') return judged;
    if (performance.now() >= endMs)
      return { goal, isReached: false, because: `not within ${seconds} s: ${judged}`, exitCode: exitCodes.different };
    await sleep(Math.min(limits.waitPollMs, Math.max(endMs - performance.now(), 1)));
  }
}

/** @param beganMs an earlier look at the directory does not count @returns why it is still waited for, in words */
export function judge(goal: Goal, seen: ControlStatus | undefined, beganMs: number): WaitEnding | string {
  const reached = { goal, isReached: true, because: null, exitCode: exitCodes.done };
  if (!seen?.report) return seen ? '`sluiced apply` is in progress' : 'no sluiced answers';
  const { report, record, probation } = seen;
  if (goal === 'healthy')
    return report.healthy ? reached : `the daemon is not healthy: ${Object.keys(report.alarms).join(', ')}`;
  if (record.held !== null) return { goal, isReached: false, because: record.held, exitCode: exitCodes.halted };
  if (probation) return `version ${probation.version} is on probation`;
  if (record.open !== null) return 'a change is in progress';
  if (report.looked === null || Date.parse(report.looked) < beganMs) return 'the bundle directory is being looked at';
  // It is being copied.
  if ('BUNDLE_INCOMPLETE' in report.alarms) return 'the bundle is not complete';
  const newest = newestRelease(record, false, report);
  if (goal === 'settled') return reached;
  const failed = (exitCode: number): WaitEnding => ({
    goal,
    isReached: false,
    because: newest?.because ?? null,
    exitCode,
  });
  const { partial } = record.current ?? {};
  if (newest?.fate === 'active')
    return partial ? { ...failed(exitCodes.different), because: describePartial(partial) } : reached;
  if (newest?.fate === 'refused') return failed(exitCodes.refused);
  // What is not to blame is tried again.
  if (newest?.fate === 'rolled back' && !record.history.at(-1)?.blameless) return failed(exitCodes.rolledBack);
  return newest?.because ?? 'no release was tried yet';
}

/** A line for the terminal. */
const printEnding = ({ goal, isReached, because }: WaitEnding): string =>
  `${'waited'.padEnd(11)} ${isReached ? `until ${goal}` : `in vain for ${goal}: ${(because ?? '').replaceAll(/\s*\n\s*/g, ' ')}`}\n`;

/** What happens by itself: the earliest first, then what waits for something without a time. */
function nextEvents({
  probation,
  held,
  waitsUntil,
  daemon,
}: Pick<StatusSummary, 'probation' | 'held' | 'waitsUntil' | 'daemon'>): readonly NextEvent[] {
  const found: NextEvent[] = [];
  const { progress = null, decision = null } = probation ?? {};
  if (decision !== null) found.push({ what: `the operator's ${decision} is carried out`, at: null });
  if (progress?.confirmBy) found.push({ what: 'the release is rolled back unless confirmed', at: progress.confirmBy });
  else if (progress) found.push({ what: 'the release is confirmed if its probes pass', at: progress.ends });
  if (daemon?.draining?.until) found.push({ what: 'the drain ends', at: daemon.draining.until });
  if (waitsUntil !== null) found.push({ what: 'a newer release may be tried', at: waitsUntil });
  if (daemon?.waits)
    found.push({ what: `the release in the directory goes in when wave ${daemon.waits.wave} opens`, at: null });
  // A look that is over comes when the change in progress ends.
  if (daemon?.nextLook && !probation) {
    const what = held === null ? 'rules and bundle directory are looked at' : 'the rollback is tried again';
    found.push({ what, at: daemon.nextLook });
  }
  return found.toSorted((a, b) => compareText(a.at ?? '~', b.at ?? '~'));
}

const unit = 'sluiced.service';

/**
 * Whether systemd starts the daemon at boot: then one that does not answer is missing. `systemctl` reads that from files.
 * @returns false without systemd, and where it is not known
 */
async function isUnitEnabled(run: Run): Promise<boolean> {
  const file = findTool('systemctl');
  if (file === undefined) return false;
  const { exitCode, stdout } = await run({ file, args: ['is-enabled', '--', unit] });
  return exitCode === 0 && /^(enabled|enabled-runtime|linked)$/m.test(stdout);
}

interface StatusOptions extends CommonOptions {
  /** Shows it again until Ctrl-C, where the output is a terminal. */
  readonly watch?: boolean;
  /** What to wait for. */
  readonly wait?: Goal;
  /** How long to wait for it, in seconds. */
  readonly timeout?: number;
}

/**
 * `sluiced status`: the journal, whether the kernel holds its generation, and the daemon's status when it answers. Exit code 5 when the
 * node is halted; 1 when the kernel differs, the daemon is unhealthy, an alarm is raised, the generation is partial, or the daemon does not
 * answer although its unit is enabled. With `--wait` that of the goal.
 */
export async function status(options: StatusOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  const { screen } = terminal;
  if (options.watch && screen && options.output !== 'json') {
    do screen.show(pageOf(printStatus(await read(config, false)), screen));
    while (await screen.pause(limits.topRefreshMs));
    return exitCodes.done;
  }
  const ending = options.wait && (await waitFor(options.wait, options.timeout ?? limits.waitSecondsDefault, config));
  const summary = await read(config, true);
  if (options.output === 'json')
    terminal.out(document('NodeStatus', { ...summary, ...(ending ? { wait: ending } : {}) }));
  else terminal.out(printStatus(summary) + (ending ? printEnding(ending) : ''));
  if (ending) return ending.exitCode;
  if (summary.held !== null) return exitCodes.halted;
  return isWell(summary) ? exitCodes.done : exitCodes.different;
}

/** @param comparing reads all rules of the kernel, too; else it is left to the daemon, which does so by itself */
async function read(config: SluicedConfig, comparing: boolean): Promise<StatusSummary> {
  const record = peek(config.state);
  const running = await controlStatus(config.state);
  const daemon = running ? running.report : ((await askDaemon(config.listen)) as DaemonStatus | null);
  const kernel = comparing
    ? await compareKernel(config, record)
    : { holds: null, differences: [], because: 'sluiced does that by itself' };
  // `sluiced apply` answers, too, and has no report of a daemon.
  const isMissing = !running && daemon === null && (await isUnitEnabled(runChildren()));
  return summarise(config, running?.record ?? record, {
    daemon,
    probation: running?.probation ?? null,
    kernel,
    missing: isMissing ? 'sluiced.service is enabled' : null,
  });
}

function isWell({ kernel, daemon, partial, missing }: StatusSummary): boolean {
  const isHealthy = daemon === null || (daemon.healthy !== false && Object.keys(daemon.alarms ?? {}).length === 0);
  return kernel.holds !== false && isHealthy && partial === null && missing === null;
}

function summarise(
  config: SluicedConfig,
  record: NodeRecord | undefined,
  seen: Pick<StatusSummary, 'daemon' | 'probation' | 'kernel' | 'missing'>,
): StatusSummary {
  const nowMs = Date.now();
  const held = record?.held ?? null;
  const waits = record ? backOffEnd(record, nowMs) : null;
  const { number = null, version = null } = record?.current ?? {};
  return {
    apiVersion: 'sluice.dev/v1alpha1',
    kind: 'NodeStatus',
    node: config.node,
    at: new Date(nowMs).toISOString(),
    generation: number,
    version,
    serial: number === null ? null : (new GenerationNotes(config.state).serialOf(number) ?? null),
    newest: record ? newestRelease(record, seen.probation !== null, seen.daemon) : null,
    partial: record?.current?.partial ?? null,
    backend: record?.backend ?? null,
    signatures: config.signatures.policy,
    rehearse: config.rehearse,
    release: config.signatures.policy === 'required' ? acceptedOf(config.state) : null,
    open: record?.open?.version ?? null,
    adoption: record?.adoption ?? null,
    held,
    quarantined: record?.quarantined ?? {},
    quarantinedServices: record?.quarantinedServices ?? [],
    damagedFiles: new Damage(config.state, () => new Date(), true).files,
    waitsUntil: waits,
    next: nextEvents({ ...seen, held, waitsUntil: waits }),
    ...seen,
  };
}

function backOffEnd(record: NodeRecord, nowMs: number): string | null {
  const untilMs = backOffUntil(record, nowMs);
  return untilMs > nowMs ? new Date(untilMs).toISOString() : null;
}

function acceptedOf(state: string): Accepted | null {
  const accepted = new ReleaseFloor(state).read();
  if (accepted && 'problem' in accepted) throw new CommandError([accepted.problem]);
  return accepted?.update ?? accepted?.release ?? null;
}
