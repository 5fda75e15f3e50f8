import { setTimeout as sleep } from 'node:timers/promises';
import type { Problem, ProblemCode } from '@sluice/bundle';
import { registryLimits } from './limits.ts';

/** Why a registry did not do what it was asked for. */
export class RegistryFailure extends Error {
  override readonly name = 'RegistryFailure';
  readonly problem: Problem;
  /** What it answered; undefined when nothing came, or when what came was of no use. */
  readonly status: number | undefined;

  constructor(code: ProblemCode & `REGISTRY_${string}`, message: string, hint: string, status?: number) {
    super(message);
    this.problem = { code, level: 'error', message, hint };
    this.status = status;
  }
}

/** What a registry holds, or says, is not what was asked for. */
export function unlikely(what: string, why: string): RegistryFailure {
  const hint = 'Compare the digest with what `sluice push` printed; if it is right, push the release again';
  return new RegistryFailure('REGISTRY_INVALID', `Cannot use ${what}: ${why}`, hint);
}

/** Whether a registry that answers so may answer otherwise in a moment: it is busy, or something behind it is. */
export const mayPass = (status: number): boolean => status === 429 || status >= 500;

/** Waits before another attempt, longer before each. @param attempt the one that failed, from 1 */
export async function backOff(attempt: number): Promise<void> {
  await sleep(registryLimits.backoffMs * 2 ** (attempt - 1));
}
