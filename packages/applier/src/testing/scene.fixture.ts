import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { sysctlKeys } from '@sluice/netfilter';
import { DiskJournal } from '../state/journal.ts';
import { FakeKernel, type FakeStart } from '../kernel/fake/fake.fixture.ts';
import { sampleNode } from './bundle.fixture.ts';
import { Reconciler, type ReconcilerOptions } from '../apply/reconcile/reconciler.ts';
import type { Clock } from '../ports/clock.ts';
import type { Kernel } from '../ports/kernel.ts';
import type { Ports } from '../ports/ports.ts';
import type { ProbeResult } from '../ports/probes.ts';
import type { ChainLayout } from '../apply/admission/linking.ts';
import { KnownForms } from '../apply/transaction/known-forms.ts';
import { sampleFacts } from './node-facts.fixture.ts';

/** For tests only: a node with a fake kernel, a real journal in a directory of its own, and a probe whose result the test sets. */
export interface Scene {
  readonly kernel: FakeKernel;
  layout: ChainLayout;
  readonly directory: string;
  /** Whether the only probe passes; called for each run of it. */
  health: () => boolean;
  /** Process ids of running kube-proxies. */
  kubeProxies: readonly number[];
  readonly events: string[];
  /** The time of day that the journal writes down, in milliseconds since 1970. */
  nowMs: number;
  /** The file of declined endpoints. */
  declined: ReadonlyMap<string, string>;
  /** The networks of the Nodes of the release, which contain the pods of sample bundles. */
  networks: readonly string[];
  /** Starts a process, which knows only the disk and the kernel. */
  start(
    options?: Partial<ReconcilerOptions>,
    ports?: Partial<Ports>,
  ): Promise<{ reconciler: Reconciler; journal: DiskJournal }>;
  end(): void;
}

/** A node without Sluice, with the kernel of `start`. */
export function scene(start: FakeStart = {}): Scene {
  const kernel = new FakeKernel({ sysctls: Object.fromEntries(sysctlKeys.map((key) => [key, 0])), ...start });
  const directory = mkdtempSync(`${existsSync('/dev/shm') ? '/dev/shm' : tmpdir()}/sluiced-test-`);
  const self: Scene = {
    kernel,
    layout: 'flat',
    directory,
    health: () => true,
    kubeProxies: [],
    events: [],
    nowMs: 0,
    declined: new Map(),
    networks: ['10.244.0.0/16', 'fd00:10::/32'],
    start: (options, ports) => startReconciler(self, options ?? {}, ports ?? {}),
    end: () => rmSync(directory, { recursive: true, force: true }),
  };
  return self;
}

async function startReconciler(
  self: Scene,
  options: Partial<ReconcilerOptions>,
  others: Partial<Ports>,
): Promise<{ reconciler: Reconciler; journal: DiskJournal }> {
  const journal = DiskJournal.open(self.directory, sampleNode, () => new Date(self.nowMs), false);
  const kernel: Kernel = others.kernel ?? self.kernel;
  const probe = async (): Promise<readonly ProbeResult[]> => {
    const healthy = self.health();
    return [{ name: 'web', healthy, seen: healthy ? 'status 200' : 'status 500' }];
  };
  const ports: Ports = {
    kernel,
    rehearsal: new KnownForms(kernel, true),
    journal,
    probes: { policies: [{ name: 'web', failures: 1, window: 1 }], intervalMs: 1000, once: probe, untilVerdict: probe },
    clock: { now: () => 0, sleep: async () => undefined, bootMs: () => 0 },
    operator: { ask: async () => undefined, forget: () => undefined, shows: () => undefined },
    report: (event) => void self.events.push(event),
    drainMs: 60_000,
    declined: { read: () => self.declined, write: (all) => void (self.declined = all) },
    networks: { read: () => self.networks, write: () => undefined },
    ...others,
  };
  const facts = { ...sampleFacts, kubeProxies: () => self.kubeProxies };
  const reconciler = new Reconciler(ports, () => facts, {
    node: sampleNode,
    allowPartial: false,
    takeOver: false,
    layout: self.layout,
    probation,
    releasesPerHour: 60,
    ...options,
  });
  return { reconciler, journal };
}

/** A probation of one round of probes. */
const probation: ReconcilerOptions['probation'] = {
  seconds: 0,
  deadmanSeconds: 30,
  mode: 'auto',
  decisionSeconds: 600,
  sources: [],
};

/** For tests only: a clock that advances with every sleep, so that probation lasts some rounds. */
export function steppingClock(): Clock {
  let now = 0;
  const sleep = async (ms: number): Promise<void> => {
    now += ms;
    for (let tick = 0; tick < 100; tick++) await Promise.resolve();
  };
  return { now: () => now, bootMs: () => now, sleep };
}
