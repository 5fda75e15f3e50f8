import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { type Family, switches, sysctlKeys, type TableName } from '@sluice/bundle';
import { DiskJournal } from '../journal/journal.ts';
import { FakeKernel } from '../kernel/fake.ts';
import { Rehearsal } from '../rollout/rehearsal.ts';
import type { EndpointUpdate, Journal, Kernel, NodeFacts, TransactionIntent, Ports } from '../rollout/ports.ts';
import { familyNames, type NodeState, tableOf } from '../rollout/state.ts';
import { rootsOf } from '../transaction/entries.ts';
import { Reconciler, type ReconcilerOptions } from '../transaction/reconciler.ts';
import { sampleNode } from './bundle.fixture.ts';
import { Countdown, type Fault, mortalJournal, mortalKernel } from './faults.fixture.ts';

/** For tests only: what goes wrong for one process. */
export interface Troubles {
  /** The call of kernel or journal at which it ends; undefined: it lives. */
  readonly diesAt: number | undefined;
  readonly fault: Fault;
  /** Whether the kernel refuses the next step. */
  readonly refuses: () => boolean;
  /** Whether the probe passes, asked at each try. */
  readonly healthy: () => boolean;
  /** How long the next call takes. */
  readonly takesMs: () => number;
}

const facts: NodeFacts = {
  tools: { ipv4: '1.8.9', ipv6: '1.8.9' },
  addresses: { ipv4: ['192.0.2.11'], ipv6: ['fd00::11'] },
  ipvsToolsMissing: [],
  kernelRelease: '6.1.0',
  tcpBeLiberal: false,
  kubeProxies: () => [],
  sysctlTakes: () => true,
};

/** For tests only: a machine with a clock that goes on with every call, in whose kernel and journal processes come and go. */
export class World {
  nowMs = 0;
  /** Sets of endpoints that broke a probe; as on a disk, they outlive a process. */
  declined: ReadonlyMap<string, string> = new Map();
  /** What a transaction ever led to. */
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
   * A process that starts: it knows what is on disk and in the kernel.
   * @param moment called after every change that it makes
   */
  start(troubles: Troubles, moment: (journal: DiskJournal) => void): { reconciler: Reconciler; journal: DiskJournal } {
    const journal = DiskJournal.open(this.#directory, sampleNode, () => new Date(0), false);
    const countdown = new Countdown(troubles.diesAt ?? -1, troubles.fault);
    const kernel = this.#slow(mortalKernel(this.kernel, countdown), troubles, () => moment(journal));
    const probe = async () => {
      this.nowMs += troubles.takesMs();
      return [{ name: 'web', healthy: troubles.healthy(), seen: 'status' }];
    };
    const ports: Ports = {
      kernel,
      rehearsal: new Rehearsal(kernel, true),
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
      operator: { ask: async () => undefined, forget: () => undefined },
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

  #slow(kernel: Kernel, { refuses, takesMs }: Troubles, moment: () => void): Kernel {
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

  /** What packets meet, and what they might, for people. */
  get told(): string {
    const told = familyNames.map(
      (family) => `${family}: nat ${this.#roots(family, 'nat').join()} filter ${this.#roots(family, 'filter').join()}`,
    );
    return `at ${this.nowMs} ms, ${told.join('; ')}`;
  }

  /**
   * Whether packets meet one program as a whole: the filter that they are asked by is that of the nat that translates them,
   * perhaps with another one's behind it.
   */
  meets(active: NodeState): boolean {
    return familyNames.every((family) => {
      const [nat] = this.#roots(family, 'nat');
      const filters = this.#roots(family, 'filter');
      return [active, ...this.programs].some((program) => {
        const root = (table: TableName): string | undefined =>
          rootsOf(table, tableOf(program, family, table)).get('SLUICE-SERVICES');
        const filter = root('filter');
        return root('nat') === nat && (filter === undefined || filters.includes(filter));
      });
    });
  }

  /** The roots that packets meet in a table, in their order. */
  #roots(family: Family, table: TableName): readonly string[] {
    const rules = this.kernel.save(family).split(`*${table}\n`)[1]?.split('COMMIT\n')[0] ?? '';
    const met: string[] = [];
    for (const [, set, root = ''] of rules.matchAll(
      /^-A SLUICE-SERVICES (?:-m set --match-set (\S+) src )?-[jg] (SLUICE-R\S+)$/gm,
    )) {
      if (set === undefined || this.kernel.switch?.holds(switches[table])) met.push(root);
    }
    return table === 'nat' ? met.slice(0, 1) : met;
  }
}
