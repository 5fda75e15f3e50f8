import { spawnSync } from 'node:child_process';
import { findProgram } from '../files/program.ts';
import type { Credentials } from '../http/client.ts';
import { RegistryFailure } from '../http/failure.ts';
import { registryLimits } from '../http/limits.ts';

/**
 * Runs a credential helper (https://github.com/docker/docker-credential-helpers, "Development"): `docker-credential-NAME get`, with
 * the registry on its standard input. It is started by its absolute path, without a shell.
 * @returns undefined when it has no credentials for this registry
 * @throws RegistryFailure (`REGISTRY_ACCESS`) when it cannot be found or fails
 */
export function askHelper(name: string, registry: string, env: NodeJS.ProcessEnv): Credentials | undefined {
  const program = `docker-credential-${name}`;
  if (!/^[a-zA-Z0-9][-a-zA-Z0-9._]*$/.test(name))
    throw failed(JSON.stringify(program), 'it is not a valid helper name');
  const file = findProgram(program, env['PATH']);
  if (file === undefined) throw failed(program, 'it was not found in an absolute directory of PATH');
  const { status, stdout, error } = spawnSync(file, ['get'], {
    input: registry,
    encoding: 'utf8',
    env,
    stdio: ['pipe', 'pipe', 'inherit'],
    timeout: registryLimits.helperTimeoutMs,
    maxBuffer: registryLimits.helperOutputBytesMax,
  });
  if (error !== undefined) throw failed(file, error.message);
  // The message of the protocol for a missing entry.
  if (status !== 0 && stdout.includes('credentials not found')) return undefined;
  const answer = status === 0 ? readAnswer(stdout) : undefined;
  if (answer === undefined) throw failed(file, status === 0 ? 'its output is not valid JSON' : `exit code ${status}`);
  return answer;
}

function readAnswer(stdout: string): Credentials | undefined {
  try {
    const { Username: user, Secret: secret } = JSON.parse(stdout) as Record<string, unknown>;
    if (typeof user !== 'string' || typeof secret !== 'string') return undefined;
    return user === '<token>' ? { kind: 'token', token: secret } : { kind: 'password', user, password: secret };
  } catch {
    return undefined;
  }
}

function failed(program: string, why: string): RegistryFailure {
  const hint = 'Install the helper of the docker config, or remove it from credHelpers and credsStore';
  return new RegistryFailure('REGISTRY_ACCESS', `Cannot get credentials from ${program}: ${why}`, hint);
}
