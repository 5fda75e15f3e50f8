import { describeStep, type Plan } from '../plan/plan.ts';
import type { Ports } from '../ports/ports.ts';

/** Applies the steps in order. @throws KernelError at the first one that the kernel does not take */
export async function carryOut(
  change: Plan,
  { kernel, clock, report }: Pick<Ports, 'kernel' | 'clock' | 'report'>,
): Promise<void> {
  for (const step of change.steps) {
    if (step.kind === 'restore-table' && step.pauseMs !== undefined) await clock.sleep(step.pauseMs);
    report('step', { step: describeStep(step) });
    await kernel.apply(step);
  }
}
