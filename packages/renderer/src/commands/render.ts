import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Problem } from '@sluice/bundle';
import { countProblems, printProblems } from '../emit/problems.ts';
import { printStale } from '../emit/stale.ts';
import { planTree, type TreePlan, writeTree } from '../emit/tree.ts';
import { exitCodes } from '../exit.ts';
import { allocationPath, printAllocation } from '../load/allocations.ts';
import type { Allocation } from '../render/allocate/allocation.ts';
import { render, type Rendered } from '../render/render.ts';
import { type InputOptions, readInput } from './input.ts';
import { progress } from './progress.ts';

export interface RenderOptions extends InputOptions {
  readonly output: string;
  readonly check: boolean;
}

/** `sluice render`: read, render, and write the directory or say whether it is what would be written. */
export async function renderCommand(options: RenderOptions): Promise<number> {
  progress('reading');
  const { input, passedOver, allocationsDir, problems } = await readInput(options);
  progress('rendering');
  const rendered = render(input);
  const found = [...problems, ...rendered.problems];
  process.stderr.write(printProblems(found));
  if (isStopped(found, options.strict)) return refuse(found, options.output);
  const plan = planTree(options.output, rendered.files);
  if ('code' in plan) {
    process.stderr.write(printProblems([plan]));
    return exitCodes.problem;
  }
  if (options.check) return check(options.output, rendered, plan);
  progress('writing');
  writeAllocations(allocationsDir, rendered.created);
  writeTree(options.output, rendered.files, plan);
  progress('');
  process.stderr.write(summary(options.output, rendered, plan, passedOver, found));
  return exitCodes.done;
}

/** True when a problem forbids to write anything. */
export function isStopped(problems: readonly Problem[], strict: boolean): boolean {
  return problems.some(({ level }) => level === 'error' || (strict && level === 'warning'));
}

function refuse(problems: readonly Problem[], output: string): number {
  process.stderr.write(`Nothing was written to ${output}: ${countProblems(problems)}\n`);
  return exitCodes.problem;
}

function check(dir: string, rendered: Rendered, plan: TreePlan): number {
  const stale = plan.write.length + plan.remove.length;
  progress('');
  if (stale === 0 && rendered.created.length === 0) {
    process.stderr.write(`${dir} is what would be written: ${rendered.files.size} files\n`);
    return exitCodes.done;
  }
  process.stdout.write(printStale(dir, rendered.files, plan));
  const missing = rendered.created.map((allocation) => `allocations/${allocationPath(allocation)}`);
  process.stderr.write(`${dir} is stale: ${stale} of ${rendered.files.size} files differ\n`);
  if (missing.length > 0) process.stderr.write(`Allocations that are not there yet: ${missing.join(', ')}\n`);
  process.stderr.write('Run the same command without --check and commit what it writes\n');
  return exitCodes.different;
}

function writeAllocations(dir: string, created: readonly Allocation[]): void {
  for (const allocation of created) {
    const file = join(dir, allocationPath(allocation));
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, printAllocation(allocation));
  }
}

function summary(
  dir: string,
  rendered: Rendered,
  plan: TreePlan,
  passedOver: ReadonlyMap<string, number>,
  problems: readonly Problem[],
): string {
  const counted = countProblems(problems);
  const kinds = [...passedOver].map(([kind, count]) => `${count} ${kind}`).join(', ');
  return [
    `${dir}: ${rendered.files.size} files, ${plan.write.length} written, ${plan.remove.length} removed\n`,
    rendered.created.length > 0
      ? `Numbers given to ${rendered.created.length} Services: commit allocations/ with the rest\n`
      : '',
    kinds === '' ? '' : `Passed over: ${kinds}\n`,
    counted === '' ? '' : `${counted}\n`,
  ].join('');
}
