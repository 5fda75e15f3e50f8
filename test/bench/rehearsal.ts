// The cost of a rehearsal of the whole program: in the unit that systemd starts for it, and in a namespace of a child. Needs root.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadOf } from '../../packages/applier/src/kernel/scratch/load.ts';
import { rehearseInNamespace } from '../../packages/applier/src/kernel/scratch/namespace.ts';
import { rehearseInUnit } from '../../packages/applier/src/kernel/scratch/unit.ts';
import { runChildren } from '../../packages/applier/src/kernel/run.ts';
import { type RuleStore, detectTools } from '../../packages/applier/src/kernel/tools.ts';
import type { NodeState } from '../../packages/applier/src/ports/node-state.ts';
import { readTree } from '../../packages/renderer/src/load/tree.ts';
import { buildTestPrograms } from '../../tools/test-programs.ts';
import { RehearsalUnit, stateOf } from '../netns/rehearsal.ts';
import { publish } from './inbox.ts';
import { highWaterMark, interleave, report, type MeasuredRun } from './measure.ts';

/** @param services with five endpoints each */
export async function rehearsalBench(services: number, rounds = 3): Promise<void> {
  process.env['SLUICE_PROGRAMS'] ??= await buildTestPrograms(join(import.meta.dirname, '../..'));
  const bundle = mkdtempSync(join(tmpdir(), 'sluice-rehearsal-'));
  try {
    publish(bundle, services);
    const files = readTree(bundle);
    if (!(files instanceof Map)) throw new Error('not a bundle');
    const state = stateOf(files, 'node-0000', 'tree');
    for (const backend of ['nft', 'legacy'] as const) await measure(state, backend, services, rounds);
  } finally {
    rmSync(bundle, { recursive: true, force: true });
  }
}

async function measure(state: NodeState, backend: RuleStore, services: number, rounds: number): Promise<void> {
  const run = runChildren();
  const tools = await detectTools(backend, run);
  await using unit = await RehearsalUnit.listen();
  const bytes = [...loadOf(state, backend).rules.values()].flatMap((text) => [...text]).join('').length;
  const runs = await interleave(rounds, {
    unit: async () => {
      let kilobytes = 0;
      const look = setInterval(() => (kilobytes = Math.max(kilobytes, highWaterMark(unit.pid))), 10);
      const seconds = await timed(() => rehearseInUnit(unit.path, loadOf(state, backend)));
      clearInterval(look);
      return { seconds, megabytes: kilobytes / 1024 };
    },
    namespace: async (): Promise<MeasuredRun> => ({
      seconds: await timed(() => rehearseInNamespace(loadOf(state, backend), tools, run)),
      megabytes: 0,
    }),
  });
  report(
    `rehearsal of ${services} Services on ${backend}, ${(bytes / 1e6).toFixed(0)} MB, in the unit`,
    `${runs.unit.seconds.toFixed(2)} s, ${runs.unit.megabytes.toFixed(0)} MB besides the tool`,
    '-',
    `in a namespace of a child ${runs.namespace.seconds.toFixed(2)} s`,
  );
}

async function timed(work: () => Promise<void>): Promise<number> {
  const started = performance.now();
  await work();
  return (performance.now() - started) / 1000;
}

if (import.meta.main) await rehearsalBench(Number(process.argv[2] ?? 10_000), Number(process.argv[3] ?? 3));
