import { RegistryFailure } from '@sluice/transport/http/failure.ts';
import { Stopped } from '@sluice/renderer/commands/failure/failure.ts';

/**
 * Runs a call to a registry.
 * @throws Stopped with the registry's problem
 */
export async function atRegistry<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof RegistryFailure ? new Stopped(error.problem) : error;
  }
}
