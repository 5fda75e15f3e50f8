import { setTimeout as sleep } from 'node:timers/promises';
import type { SluicedConfig } from '../config.ts';
import { removeLeftScratch } from '../inbox/release-signatures.ts';
import { Decisions } from '../control/decisions.ts';
import { declinedFile, networksFile } from '../state/endpoint-files.ts';
import { DiskJournal } from '../state/journal.ts';
import { type Lock, takeLock } from '../state/lock.ts';
import { type ForeignChange, type ChangeWatch, watchChanges } from '../kernel/changes.ts';
import { readFacts } from '../kernel/facts.ts';
import { switchOf } from '../kernel/find-switch.ts';
import { knowsBpf } from '../kernel/knows-bpf.ts';
import { LinuxKernel } from '../kernel/linux.ts';
import { OwnProcesses, readsProcessIds } from '../kernel/own-processes.ts';
import { runChildren } from '../kernel/run.ts';
import { placeOf, rehearser } from '../kernel/scratch/rehearse.ts';
import { Spares } from '../kernel/spares.ts';
import { procTunables } from '../kernel/sysctl.ts';
import { type RuleStore, detectTools, type StoreDoubt, storeDoubt, storeOf } from '../kernel/tools.ts';
import { AfterUpdate, type AfterUpdateParts } from '../probe/after-update.ts';
import { configuredProbes } from '../probe/probes.ts';
import type { Ports, Report } from '../ports/ports.ts';
import { KnownForms } from '../transaction/known-forms.ts';
import { Reconciler } from '../reconcile/reconciler.ts';
import { hasLostBpf } from '../admission/links-with-bpf.ts';
import type { ProbationRules } from '../transaction/probation.ts';
import { limits } from '../limits.ts';
import { bootMs } from './clock.ts';

/** A reconciler with the real kernel, disk and clock. */
export interface NodeSession {
  readonly reconciler: Reconciler;
  readonly journal: DiskJournal;
  /** Operators' decisions about a release on probation. */
  readonly decisions: Decisions;
  /** Whether one switch moves packets to new rules, in layout `tree`. */
  readonly hasSwitch: boolean;
  readonly hasLostBpf: boolean;
  /** Watches for changes of the tables by other programs, from now on. */
  watch(monotonicMs: () => number, onChange: (change: ForeignChange) => void): ChangeWatch;
  /** The rule store that holds the rules. */
  readonly backend: RuleStore;
  /** The ports with the tools of another rule store. */
  portsOf(backend: RuleStore): Promise<Ports>;
  storeDoubt(): Promise<StoreDoubt | undefined>;
  /** To be called when idle: prepares tools for the next change. */
  idle(): void;
  close(): void;
}

/**
 * What a session may do. 'look' changes nothing and takes no lock; 'frozen' writes nothing to the disk, but loads rules into the kernel
 * from what is left there, even without a readable journal; 'change' holds the lock until `close`; so does 'back', which also works on a
 * disk that takes no write.
 */
export type SessionMode = 'look' | 'frozen' | 'change' | 'back';

/**
 * Opens the node for one command or for the daemon.
 * @param onProbe `AfterUpdateParts.alarm`; default: probes are not watched after endpoint updates
 * @throws StateError when another sluiced holds the lock or the state directory cannot be used
 */
export async function openSession(
  config: SluicedConfig,
  mode: SessionMode,
  report: Report,
  onProbe?: AfterUpdateParts['alarm'],
): Promise<NodeSession> {
  const changes = mode === 'change' || mode === 'back';
  const lock: Lock | undefined = changes ? takeLock(config.state, limits.lockWaitSeconds, mode === 'back') : undefined;
  try {
    const own = new OwnProcesses(readsProcessIds(), () => performance.now());
    const spares = new Spares(lock?.fd);
    const run = runChildren(lock?.fd, (pid, command) => own.add(pid, command), spares);
    const now = (): Date => new Date();
    const journal =
      mode === 'look'
        ? DiskJournal.look(config.state, config.node, now)
        : DiskJournal.open(config.state, config.node, now, false);
    const pinned = journal.active ? journal.record.backend : undefined;
    const tools = await detectTools(storeOf(config.backend, pinned), run);
    if (changes) {
      removeLeftScratch(config.state, Date.now());
      await journal.pin(tools.backend);
    }
    report('tools', { backend: tools.backend, ipv4: tools.families.ipv4, ipv6: tools.families.ipv6 });
    const switchStates = await switchOf(
      tools,
      run,
      placeOf(config.rehearse) === 'namespace',
      journal.open?.flip === 'switch',
    );
    const rehearse = rehearser(config.rehearse, tools, run, report);
    // In layout `flat`, too: the active generation may have the other layout.
    const bpf = await knowsBpf(tools, run);
    const kernel = new LinuxKernel(tools, run, procTunables, switchStates, rehearse, bpf);
    const clock = { now: () => Date.now(), sleep: (ms: number) => sleep(ms), bootMs };
    const probes = configuredProbes(config.probes, clock);
    // Watching probes after an update must not keep the process alive.
    const idly = { bootMs, sleep: (ms: number) => sleep(ms, undefined, { ref: false }) };
    const decisions = new Decisions(config.node, journal);
    const ports: Ports = {
      kernel,
      rehearsal: new KnownForms(kernel, config.rehearse !== 'off'),
      journal,
      probes,
      declined: declinedFile(config.state),
      ...(config.signatures.policy === 'required' ? { networks: networksFile(config.state) } : {}),
      ...(onProbe ? { updates: new AfterUpdate({ probes, clock: idly, alarm: onProbe }) } : {}),
      clock,
      operator: decisions,
      report,
      drainMs: config.ipvs.drainSeconds * 1000,
    };
    const options = {
      node: config.node,
      allowPartial: config.allowPartial,
      takeOver: config.takeOver.includes('kube-proxy'),
      takeOrder: config.takeOver.includes('order'),
      layout: config.layout,
      probation: probationOf(config),
      releasesPerHour: config.releases.perHour,
      endpointRanges: config.endpoints.ranges,
      lastEndpointAfterMs: config.endpoints.lastAfterSeconds * 1000,
    };
    const reconciler = new Reconciler(ports, () => readFacts(tools, procTunables), options);
    return {
      reconciler,
      journal,
      decisions,
      hasSwitch: switchStates !== undefined,
      hasLostBpf: hasLostBpf({ journal, kernel }),
      watch: (monotonicMs, onChange) => watchChanges(tools, run, own, monotonicMs, onChange),
      backend: tools.backend,
      portsOf: async (backend) => {
        const others = await detectTools(backend, run);
        return {
          ...ports,
          kernel: new LinuxKernel(others, run, procTunables, switchStates, rehearse, await knowsBpf(others, run)),
        };
      },
      storeDoubt: () => storeDoubt(tools.backend, run),
      idle: () => spares.refill(),
      close: () => {
        spares.end();
        lock?.release();
      },
    };
  } catch (error) {
    lock?.release();
    throw error;
  }
}

function probationOf({ probation }: SluicedConfig): ProbationRules {
  const { seconds, deadmanSeconds, confirm, decisionSeconds, sources } = probation;
  return { seconds, deadmanSeconds, mode: confirm, decisionSeconds, sources };
}
