import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { type Family, type NftState, readFrontend, switches, sysctlKeys, type TableName } from '@sluice/netfilter';
import { DiskJournal } from '../state/journal.ts';
import { FakeKernel } from '../kernel/fake/fake.fixture.ts';
import { KnownForms } from '../apply/transaction/known-forms.ts';
import type { EndpointUpdate, Journal, TransactionIntent } from '../ports/journal.ts';
import type { Kernel } from '../ports/kernel.ts';
import type { Ports } from '../ports/ports.ts';
import { familyNames, type NodeState, tableOf, rootsOf } from '../ports/node-state.ts';
import { Reconciler, type ReconcilerOptions } from '../apply/reconcile/reconciler.ts';
import type { ObservedNft } from '../ports/nftables/observed.ts';
import { sampleNode } from './bundle.fixture.ts';
import { Countdown, type CrashMoment, mortalJournal, mortalKernel } from './faults.fixture.ts';
import { servedBy } from './nftables.fixture.ts';
import { sampleFacts as facts } from './node-facts.fixture.ts';

/** For tests only: the faults of one process. */
export interface ProcessFaults {
  /** The call of kernel or journal at which it crashes; undefined: it does not. */
  readonly diesAt: number | undefined;
  readonly fault: CrashMoment;
  /** Whether the kernel refuses the next step. */
  readonly refuses: () => boolean;
  /** Whether the probe passes; called for each run of it. */
  readonly healthy: () => boolean;
  /** The duration of the next call. */
  readonly takesMs: () => number;
}

/** For tests only: a node whose clock advances with every call, and whose kernel and journal outlive its processes. */
export class World {
  nowMs = 0;
  /** Declined sets of endpoints; as on a disk, they outlive a process. */
  declined: ReadonlyMap<string, string> = new Map();
  /** The desired states of all transactions so far. */
  readonly programs: NodeState[] = [];
  readonly kernel: FakeKernel;
  readonly #layout: ReconcilerOptions['layout'];
  readonly #directory = mkdtempSync(`${existsSync('/dev/shm') ? '/dev/shm' : tmpdir()}/sluiced-world-`);

  constructor(layout: ReconcilerOptions['layout'], rules: string, withoutSwitch: boolean) {
    this.#layout = layout;
    const sysctls = Object.fromEntries(sysctlKeys.map((key) => [key, 0]));
    this.kernel = new FakeKernel({ sysctls, nowMs: () => this.nowMs, withoutSwitch });
    this.kernel.load('ipv4', rules);
  }

  end(): void {
    rmSync(this.#directory, { recursive: true, force: true });
  }

  /**
   * Starts a process, which knows only the disk and the kernel.
   * @param moment called after every change that it makes
   */
  start(
    faults: ProcessFaults,
    moment: (journal: DiskJournal) => void,
  ): { reconciler: Reconciler; journal: DiskJournal } {
    const journal = DiskJournal.open(this.#directory, sampleNode, () => new Date(0), false);
    const countdown = new Countdown(faults.diesAt ?? -1, faults.fault);
    const kernel = this.#slow(mortalKernel(this.kernel, countdown), faults, () => moment(journal));
    const probe = async () => {
      this.nowMs += faults.takesMs();
      return [{ name: 'web', healthy: faults.healthy(), seen: 'status' }];
    };
    const ports: Ports = {
      kernel,
      rehearsal: new KnownForms(kernel, true),
      journal: this.#noting(mortalJournal(journal, countdown)),
      probes: {
        policies: [{ name: 'web', failures: 2, window: 3 }],
        intervalMs: 1000,
        once: probe,
        untilVerdict: probe,
      },
      clock: {
        now: () => this.nowMs,
        bootMs: () => this.nowMs,
        sleep: async (ms) => {
          await countdown.through(async () => undefined);
          this.nowMs += ms;
        },
      },
      operator: { ask: async () => undefined, forget: () => undefined, shows: () => undefined },
      declined: { read: () => this.declined, write: (all) => void (this.declined = all) },
      report: () => undefined,
      drainMs: 0,
    };
    const probation = { seconds: 4, deadmanSeconds: 30, mode: 'auto', decisionSeconds: 60, sources: [] } as const;
    const options = {
      node: sampleNode,
      allowPartial: false,
      takeOver: false,
      layout: this.#layout,
      probation,
      releasesPerHour: 60,
    };
    return { reconciler: new Reconciler(ports, () => facts, options), journal };
  }

  #noting(journal: Journal): Journal {
    const [begin, offer] = [journal.begin.bind(journal), journal.offer.bind(journal)];
    // In place: a copy would lose its getters.
    return Object.assign(journal, {
      begin: async (opening: TransactionIntent) => {
        this.programs.push(opening.state);
        await begin(opening);
      },
      offer: async (update: EndpointUpdate) => {
        this.programs.push(update.from, update.to);
        await offer(update);
      },
    });
  }

  #slow(kernel: Kernel, { refuses, takesMs }: ProcessFaults, moment: () => void): Kernel {
    const slowly = async <T>(work: () => Promise<T>): Promise<T> => {
      this.nowMs += takesMs();
      try {
        return await work();
      } finally {
        moment();
      }
    };
    const switchStates = kernel.switch;
    return {
      ...kernel,
      apply: (step) =>
        slowly(async () => {
          if (refuses()) throw new Error('the kernel is busy');
          await kernel.apply(step);
        }),
      switch: switchStates && {
        ...switchStates,
        on: (seconds) => slowly(() => switchStates.on(seconds)),
        off: (table) => slowly(() => switchStates.off(table)),
      },
    };
  }

  /** The roots that packets meet, as text. */
  get summary(): string {
    const roots = familyNames.map(
      (family) => `${family}: nat ${this.#roots(family, 'nat').join()} filter ${this.#roots(family, 'filter').join()}`,
    );
    const table = [...(this.kernel.nft.list()?.elements.get('svc4') ?? [])].map(([key]) => key).join(', ');
    return `at ${this.nowMs} ms, ${roots.join('; ')}; table: ${table}`;
  }

  /**
   * Whether packets meet one whole program: the same program's nat and filter, perhaps with another program's filter after it; or the
   * table of mode nftables as a program has it. When the mode changes, both data planes are in the kernel for a while. Mode ipvs changes
   * line by line: nothing is said about a change from or to it.
   */
  meets(active: NodeState): boolean {
    if (active.ipvs ?? this.programs.at(-1)?.ipvs) return true;
    const programs = [active, ...this.programs.filter((one) => one.nft ?? one.families.ipv4)];
    const table = this.kernel.nft.list();
    return (
      (table !== undefined && programs.some(({ nft }) => nft && servesAll(table, nft))) ||
      this.#meetsTables(programs.filter(({ nft, ipvs }) => !nft && !ipvs))
    );
  }

  #meetsTables(programs: readonly NodeState[]): boolean {
    return familyNames.every((family) => {
      const [nat] = this.#roots(family, 'nat');
      const filters = this.#roots(family, 'filter');
      return programs.some((program) => {
        const root = (table: TableName): string | undefined =>
          rootsOf(table, tableOf(program, family, table)).get('SLUICE-SERVICES');
        const filter = root('filter');
        return root('nat') === nat && (filter === undefined || filters.includes(filter));
      });
    });
  }

  /** The roots that packets meet in a table, in order. */
  #roots(family: Family, table: TableName): readonly string[] {
    const rules = this.kernel.save(family).split(`*${table}\n`)[1]?.split('COMMIT\n')[0] ?? '';
    const met: string[] = [];
    for (const [, set, root = ''] of rules.matchAll(
      /^-A SLUICE-SERVICES (?:-m set --match-set (\S+) src )?-[jg] (SLUICE-R\S+)$/gm,
    )) {
      if (set === undefined || this.kernel.ipset?.holds(switches[table])) met.push(root);
    }
    return table === 'nat' ? met.slice(0, 1) : met;
  }
}

/** Whether packets to each frontend of a program get its endpoints. */
function servesAll(table: ObservedNft, { frontends }: NftState): boolean {
  return [...frontends].every(
    ([key, lines]) => servedBy(table, key).toSorted().join() === readFrontend(key, lines).endpoints.toSorted().join(),
  );
}
