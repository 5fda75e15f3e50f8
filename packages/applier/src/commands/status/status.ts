import type { Accepted } from '@sluice/bundle';
import type { SluicedConfig } from '../../config.ts';
import { ReleaseFloor } from '../../inbox/release-floor.ts';
import type { ProbationStatus } from '../../control/protocol.ts';
import { peek } from '../../state/peek.ts';
import type { NodeRecord } from '../../state/record.ts';
import { backOffUntil } from '../../state/transitions.ts';
import type { Adoption } from '../../ports/adoption.ts';
import type { PartialRelease, QuarantinedService } from '../../ports/journal.ts';
import { describePartial, exitCodes } from '../../ports/outcome.ts';
import type { NftProtection } from '../../nftables/ports.ts';
import type { RepairAt } from '../../status/repairs.ts';
import { formerAlarmCodes } from '../../status/alarms.ts';
import type { AwaitedWave } from '../../status/status.ts';
import { compareKernel, type KernelView } from './compare.ts';
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

/** The fields that are read of the daemon's status. A daemon of another version may leave some out. */
interface DaemonStatus {
  readonly healthy?: boolean;
  readonly waits?: AwaitedWave | null;
  readonly lastRepair?: RepairAt | null;
  readonly protection?: NftProtection | null;
  readonly notes?: Readonly<Record<string, string>>;
  readonly alarms?: Readonly<Record<string, string>>;
}

/** The document of `status -o json`. */
interface StatusSummary {
  readonly apiVersion: 'sluice.dev/v1alpha1';
  readonly kind: 'NodeStatus';
  readonly node: string;
  readonly generation: number | null;
  readonly version: string | null;
  /** The Services that the generation lacks of its release, and why; null when it lacks none. */
  readonly partial: PartialRelease | null;
  readonly backend: string | null;
  readonly signatures: 'required' | 'none';
  readonly rehearse: SluicedConfig['rehearse'];
  /** The release that was accepted last, where signatures are required. */
  readonly release: Accepted | null;
  readonly open: string | null;
  /** The move from kube-proxy; null where there was none. */
  readonly adoption: Adoption | null;
  /** The release on probation, with the token that `sluiced confirm --token` takes. */
  readonly probation: ProbationStatus | null;
  readonly held: string | null;
  readonly quarantined: Readonly<Record<string, string>>;
  readonly quarantinedServices: readonly QuarantinedService[];
  /** Until when a newer release waits after failed ones; null when none does. */
  readonly waitsUntil: string | null;
  readonly kernel: KernelView;
  readonly daemon: unknown;
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
    waitsUntil: record ? waitsUntil(record, Date.now()) : null,
    ...seen,
  };
}

function waitsUntil(record: NodeRecord, nowMs: number): string | null {
  const untilMs = backOffUntil(record, nowMs);
  return untilMs > nowMs ? new Date(untilMs).toISOString() : null;
}

function describeKernel({ holds, differences, because }: KernelView): string {
  if (holds === null) return `not compared: ${because}`;
  return holds ? 'holds the confirmed rules' : `DIFFERS from the confirmed rules: ${differences.join('; ')}`;
}

function describeRelease({ serial, revision, signers, onlyEndpoints }: Accepted): string {
  const what = revision === undefined ? `serial ${serial}` : `serial ${serial}, revision ${revision}`;
  return `${what}, signed by ${signers.join(', ')}${onlyEndpoints ? ' for endpoints only' : ''}`;
}

function describeProtection(protection: NftProtection): string {
  return protection.kind === 'owned'
    ? 'protected: only sluiced can change it'
    : `not protected from other programs: ${protection.why}`;
}

/** What a move from kube-proxy has come to. */
function describeAdoption({ goal, isStored }: Adoption): string {
  if (goal === 'kube-proxy') return 'moving back to kube-proxy: `sluiced adopt --undo` finishes it';
  return isStored
    ? 'kube-proxy is stopped, and its rules are generation 0; `sluiced adopt --undo` moves the node back'
    : 'Sluice is in front of kube-proxy; `sluiced adopt` goes on, `sluiced adopt --undo` moves the node back';
}

function acceptedOf(state: string): Accepted | null {
  const accepted = new ReleaseFloor(state).read();
  if (accepted && 'problem' in accepted) throw new CommandError([accepted.problem]);
  return accepted?.update ?? accepted?.release ?? null;
}

/** Alarms without those that are repeated under a former code. */
function currentAlarms(alarms: Readonly<Record<string, string>>): readonly (readonly [string, string])[] {
  const renamed = Object.entries(formerAlarmCodes).filter(([code]) => code in alarms);
  const former = new Set<string>(renamed.map(([, code]) => code));
  return Object.entries(alarms).filter(([code]) => !former.has(code));
}

function printStatus(summary: StatusSummary): string {
  const generation = summary.generation === null ? 'none yet' : `${summary.generation}, version ${summary.version}`;
  const daemon = summary.daemon as DaemonStatus | null;
  const lines = [
    `node        ${summary.node}`,
    `generation  ${generation}`,
    `rule store  ${summary.backend ?? 'not selected yet'}`,
  ];
  if (summary.partial) lines.push(`partial     ${describePartial(summary.partial)}`);
  if (summary.adoption) lines.push(`adoption    ${describeAdoption(summary.adoption)}`);
  lines.push(`kernel      ${describeKernel(summary.kernel)}`);
  lines.push(`daemon      ${daemon === null ? 'not running' : daemon.healthy ? 'healthy' : 'not healthy'}`);
  lines.push(`signatures  ${summary.signatures === 'none' ? 'NOT REQUIRED: any bundle is accepted' : 'required'}`);
  if (summary.rehearse === 'off') lines.push('rehearsals  OFF: new rules are applied without a rehearsal');
  if (summary.release) lines.push(`release     ${describeRelease(summary.release)}`);
  if (daemon?.waits) lines.push(`waits       for wave ${daemon.waits.wave} (${daemon.waits.name}) to open`);
  if (summary.waitsUntil !== null) lines.push(`back-off    a newer release waits until ${summary.waitsUntil}`);
  if (daemon?.protection) lines.push(`table       ${describeProtection(daemon.protection)}`);
  if (daemon?.lastRepair)
    lines.push(
      `last repair ${daemon.lastRepair.at}: rules were changed by ${daemon.lastRepair.by ?? 'another program'}`,
    );
  for (const [code, why] of currentAlarms(daemon?.alarms ?? {})) lines.push(`alarm       ${code}: ${why}`);
  for (const [code, why] of Object.entries(daemon?.notes ?? {})) lines.push(`note        ${code}: ${why}`);
  if (summary.probation)
    lines.push(
      `probation   version ${summary.probation.version}, token ${summary.probation.token}`,
      `            \`sluiced confirm --token ${summary.probation.token}\` confirms it, \`sluiced cancel\` rolls it back`,
    );
  else if (summary.open !== null)
    lines.push(`open        a change to version ${summary.open} is in progress or was interrupted`);
  if (summary.held !== null)
    lines.push(`halted      ${summary.held}`, '            fix the cause, then run `sluiced rollback`');
  for (const [version, why] of Object.entries(summary.quarantined)) lines.push(`quarantined ${version}: ${why}`);
  for (const { service, version, because } of summary.quarantinedServices)
    lines.push(`quarantined ${service} ${version}: ${because}`);
  return `${lines.join('\n')}\n`;
}
