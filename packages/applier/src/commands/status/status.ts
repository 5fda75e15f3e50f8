import type { Accepted } from '@sluice/bundle';
import { document } from '@sluice/cli';
import type { SluicedConfig } from '../../config.ts';
import { ReleaseFloor } from '../../inbox/release-floor.ts';
import { Damage } from '../../state/damage.ts';
import { peek } from '../../state/peek.ts';
import type { NodeRecord } from '../../state/record.ts';
import { backOffUntil } from '../../state/transitions.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { compareKernel } from './compare.ts';
import { printStatus } from './print-status.ts';
import { newestRelease } from './newest.ts';
import { nextEvents } from './next.ts';
import type { DaemonStatus, StatusSummary } from './summary.ts';
import { isUnitEnabled } from './unit.ts';
import { type Goal, printEnding, waitFor } from './wait.ts';
import { runChildren } from '../../kernel/run.ts';
import { limits } from '../../limits.ts';
import { GenerationNotes } from '../../state/generation-notes.ts';
import { controlStatus } from '../session/control-status.ts';
import { askDaemon } from '../session/daemon-status.ts';
import { CommandError } from '../../command-error.ts';
import { type CommonOptions, loadConfig, pageOf, type Terminal } from '../terminal/terminal.ts';

interface StatusOptions extends CommonOptions {
  /** Shows it anew until Ctrl-C, where the output is a terminal. */
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
  const daemon = running ? running.report : await askDaemon(config.listen);
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
  const daemonStatus = daemon as DaemonStatus | null;
  const isHealthy =
    daemonStatus === null || (daemonStatus.healthy !== false && Object.keys(daemonStatus.alarms ?? {}).length === 0);
  return kernel.holds !== false && isHealthy && partial === null && missing === null;
}

function summarise(
  config: SluicedConfig,
  record: NodeRecord | undefined,
  seen: Pick<StatusSummary, 'daemon' | 'probation' | 'kernel' | 'missing'>,
): StatusSummary {
  const nowMs = Date.now();
  const held = record?.held ?? null;
  const waits = record ? waitsUntil(record, nowMs) : null;
  const daemon = seen.daemon as DaemonStatus | null;
  const { number = null, version = null } = record?.current ?? {};
  return {
    apiVersion: 'sluice.dev/v1alpha1',
    kind: 'NodeStatus',
    node: config.node,
    at: new Date(nowMs).toISOString(),
    generation: number,
    version,
    serial: number === null ? null : (new GenerationNotes(config.state).serialOf(number) ?? null),
    newest: record ? newestRelease(record, seen.probation !== null, daemon) : null,
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
    next: nextEvents({ probation: seen.probation, held, waitsUntil: waits, daemon }),
    ...seen,
  };
}

function waitsUntil(record: NodeRecord, nowMs: number): string | null {
  const untilMs = backOffUntil(record, nowMs);
  return untilMs > nowMs ? new Date(untilMs).toISOString() : null;
}

function acceptedOf(state: string): Accepted | null {
  const accepted = new ReleaseFloor(state).read();
  if (accepted && 'problem' in accepted) throw new CommandError([accepted.problem]);
  return accepted?.update ?? accepted?.release ?? null;
}
