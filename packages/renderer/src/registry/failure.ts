import type { Problem, ProblemCode } from '@sluice/bundle';

/** Why a registry did not do what it was asked for. */
export class RegistryFailure extends Error {
  override readonly name = 'RegistryFailure';
  readonly problem: Problem;

  constructor(code: ProblemCode & `REGISTRY_${string}`, message: string, hint: string) {
    super(message);
    this.problem = { code, level: 'error', message, hint };
  }
}

/** What a registry holds, or says, is not what was asked for. */
export function unlikely(what: string, why: string): RegistryFailure {
  const hint = 'Compare the digest with what `sluice push` printed; if it is right, push the release again';
  return new RegistryFailure('REGISTRY_INVALID', `Cannot use ${what}: ${why}`, hint);
}
