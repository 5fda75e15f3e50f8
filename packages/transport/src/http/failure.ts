import { setTimeout as sleep } from 'node:timers/promises';
import { type Problem, type ProblemCode, refusal } from '@sluice/netfilter';
import { registryLimits } from './limits.ts';

/** A failed request to a registry or a web server, as a problem. */
export class RegistryFailure extends Error {
  override readonly name = 'RegistryFailure';
  readonly problem: Problem;
  /** The status of the response; undefined without a usable response. */
  readonly status: number | undefined;

  constructor(code: ProblemCode & `REGISTRY_${string}`, message: string, hint: string, status?: number) {
    super(message);
    this.problem = refusal(code, message, hint);
    this.status = status;
  }
}

/** A failure for invalid content of a server. */
export function invalidContent(what: string, why: string): RegistryFailure {
  const hint = 'Compare the digest with the output of `sluice push`; if it is right, push the release again';
  return new RegistryFailure('REGISTRY_INVALID', `Cannot use ${what}: ${why}`, hint);
}

/** Whether a status is temporary: the server, or its backend, is overloaded. */
export const mayPass = (status: number): boolean => status === 429 || status >= 500;

/** Waits before the next attempt, with exponential back-off. @param attempt the failed one, from 1 */
export async function backOff(attempt: number, signal?: AbortSignal): Promise<void> {
  await sleep(registryLimits.backoffMs * 2 ** (attempt - 1), undefined, signal && { signal });
}
