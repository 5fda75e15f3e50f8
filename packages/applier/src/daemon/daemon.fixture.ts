import type { Tree } from '../inbox/files.ts';
import type { Arrival } from '../inbox/inbox.ts';
import type { Generation } from '../ports/journal.ts';
import type { Outcome } from '../ports/outcome.ts';
import { Status } from '../observe/status/status.ts';
import { Daemon } from './daemon.ts';
import type { DaemonDependencies } from './dependencies.ts';
import type { DaemonLog } from './reports.ts';

export const generation: Generation = {
  number: 1,
  revision: 0,
  version: 'v1',
  state: { families: {}, sysctls: new Map() },
};

export const confirmed = { kind: 'confirmed', generation, steps: 1 } as const satisfies Outcome;

/** What the bundle directory holds, by its digest. */
export const tree = (digest: string): Tree => ({ files: new Map(), digest });
export const bundle = (one: Tree): Arrival => ({ kind: 'bundle', tree: one });

interface Changes extends Partial<Omit<DaemonDependencies, 'reconciler' | 'log'>> {
  readonly reconciler?: Partial<DaemonDependencies['reconciler']>;
  readonly log?: Partial<DaemonLog>;
}

const silent: DaemonLog = {
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  fatal: () => undefined,
};

/** A daemon on a node where nothing happens: its generation is active, and the bundle directory is absent. */
export function quietDaemon({ reconciler, log, ...changes }: Changes): Daemon {
  return new Daemon({
    reconciler: {
      recover: async () => undefined,
      repair: async () => 0,
      put: async () => ({ kind: 'same', generation }),
      rehearse: async () => 'ready',
      ...reconciler,
    },
    journal: { active: generation, halted: undefined },
    inbox: { look: async () => ({ kind: 'absent' }) },
    status: new Status('node-a', () => 0, 1000),
    log: { ...silent, ...log },
    machine: () => '',
    monotonicMs: () => 0,
    scanIntervalMs: 1000,
    ready: () => undefined,
    ...changes,
  });
}
