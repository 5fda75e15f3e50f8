import type { Accepted } from '@sluice/bundle';
import type { SluicedConfig } from '../../config.ts';
import { ReleaseFloor } from '../../inbox/release-floor.ts';
import { Damage } from '../../state/damage.ts';
import { peek } from '../../state/peek.ts';
import type { NodeRecord } from '../../state/record.ts';
import { backOffUntil } from '../../state/transitions.ts';
import { exitCodes } from '../../ports/outcome.ts';
import { compareKernel } from './compare.ts';
import { printStatus } from './print-status.ts';
import type { DaemonStatus, StatusSummary } from './summary.ts';
import { controlStatus } from '../session/control-status.ts';
import { askDaemon } from '../session/daemon-status.ts';
import { CommandError } from '../../command-error.ts';
import { type CommonOptions, loadConfig, type Terminal } from '../terminal/terminal.ts';

/**
 * `sluiced status`: the journal, whether the kernel holds its generation, and the daemon's status when it answers. Exit code 5 when the
 * node is halted; 1 when the kernel differs, the daemon is unhealthy, an alarm is raised or the generation is partial.
 */
export async function status(options: CommonOptions, terminal: Terminal): Promise<number> {
  const config = loadConfig(options);
  const record = peek(config.state);
  const running = await controlStatus(config.state);
  const daemon = running ? running.report : await askDaemon(config.listen);
  const kernel = await compareKernel(config, record);
  const summary = summarise(config, running?.record ?? record, {
    daemon,
    probation: running?.probation ?? null,
    kernel,
  });
  if (options.output === 'json') terminal.out(`${JSON.stringify(summary, undefined, 2)}\n`);
  else terminal.out(printStatus(summary));
  if (summary.held !== null) return exitCodes.halted;
  return isWell(summary) ? exitCodes.done : exitCodes.different;
}

function isWell({ kernel, daemon, partial }: StatusSummary): boolean {
  const daemonStatus = daemon as DaemonStatus | null;
  const isHealthy =
    daemonStatus === null || (daemonStatus.healthy !== false && Object.keys(daemonStatus.alarms ?? {}).length === 0);
  return kernel.holds !== false && isHealthy && partial === null;
}

function summarise(
  config: SluicedConfig,
  record: NodeRecord | undefined,
  seen: Pick<StatusSummary, 'daemon' | 'probation' | 'kernel'>,
): StatusSummary {
  return {
    apiVersion: 'sluice.dev/v1alpha1',
    kind: 'NodeStatus',
    node: config.node,
    generation: record?.current?.number ?? null,
    version: record?.current?.version ?? null,
    partial: record?.current?.partial ?? null,
    backend: record?.backend ?? null,
    signatures: config.signatures.policy,
    rehearse: config.rehearse,
    release: config.signatures.policy === 'required' ? acceptedOf(config.state) : null,
    open: record?.open?.version ?? null,
    adoption: record?.adoption ?? null,
    held: record?.held ?? null,
    quarantined: record?.quarantined ?? {},
    quarantinedServices: record?.quarantinedServices ?? [],
    damagedFiles: new Damage(config.state, () => new Date(), true).files,
    waitsUntil: record ? waitsUntil(record, Date.now()) : null,
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
