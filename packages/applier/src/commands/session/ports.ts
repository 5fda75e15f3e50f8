import { uptime } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SluicedConfig } from '../../config.ts';
import type { Decisions } from '../../daemon/control/decisions.ts';
import type { LinuxKernel } from '../../kernel/linux/linux.ts';
import type { ParityGate } from '../../ports/parity.ts';
import type { Ports, Report } from '../../ports/ports.ts';
import { AfterUpdate, type AfterUpdateDependencies } from '../../observe/probe/after-update.ts';
import { configuredProbes } from '../../observe/probe/probes.ts';
import type { ReconcilerOptions } from '../../apply/reconcile/reconciler.ts';
import type { DiskJournal } from '../../state/journal.ts';
import { declinedFile, networksFile } from '../../state/state-file.ts';
import { KnownForms } from '../../apply/transaction/known-forms.ts';
import type { ProbationRules } from '../../apply/transaction/probation.ts';

/** What the ports are made of besides the config. */
interface PortsDependencies {
  readonly kernel: LinuxKernel;
  readonly journal: DiskJournal;
  readonly decisions: Decisions;
  readonly report: Report;
  /** Undefined: probes are not watched after endpoint updates. */
  readonly onProbe: AfterUpdateDependencies['alarm'] | undefined;
  readonly unknownRules: AfterUpdateDependencies['unknownRules'];
  /** Undefined: a take-over needs no certificate. */
  readonly parity: ParityGate | undefined;
}

/** The ports of a transaction, with the real kernel, disk and clock. */
export function portsOf(
  config: SluicedConfig,
  { kernel, journal, decisions, report, onProbe, unknownRules, parity }: PortsDependencies,
): Ports {
  const clock = { now: () => Date.now(), sleep: (ms: number) => sleep(ms), bootMs };
  const probes = configuredProbes(config.probes, clock);
  // Watching probes after an update must not keep the process alive.
  const idly = { bootMs, sleep: (ms: number) => sleep(ms, undefined, { ref: false }) };
  return {
    kernel,
    rehearsal: new KnownForms(kernel, config.rehearse !== 'off'),
    journal,
    probes,
    declined: declinedFile(config.state),
    ...(config.signatures.policy === 'required' ? { networks: networksFile(config.state) } : {}),
    ...(onProbe ? { updates: new AfterUpdate({ probes, clock: idly, unknownRules, alarm: onProbe }) } : {}),
    ...(parity ? { parity } : {}),
    clock,
    operator: decisions,
    report,
    drainMs: config.ipvs.drainSeconds * 1000,
  };
}

/** What the config says about changes. */
export function reconcilerOptions(config: SluicedConfig): ReconcilerOptions {
  return {
    node: config.node,
    allowPartial: config.allowPartial,
    takeOver: config.takeOver.includes('kube-proxy'),
    takeOrder: config.takeOver.includes('order'),
    layout: config.layout,
    probation: probationOf(config),
    releasesPerHour: config.releases.perHour,
    endpointRanges: config.endpoints.ranges,
    lastEndpointAfterMs: config.endpoints.lastAfterSeconds * 1000,
    removals: {
      share: config.removals.share,
      least: config.removals.least,
      holdMs: config.removals.holdSeconds * 1000,
    },
  };
}

function probationOf({ probation }: SluicedConfig): ProbationRules {
  const { confirm, ...others } = probation;
  return { ...others, mode: confirm };
}

/** CLOCK_BOOTTIME in milliseconds, which Node calls the uptime of the machine. It includes suspended time. */
function bootMs(): number {
  return uptime() * 1000;
}
