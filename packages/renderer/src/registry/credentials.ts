import { type Credentials, askHelper } from './helper.ts';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { RegistryFailure } from './failure.ts';
import { registryLimits } from './limits.ts';

type JsonObjectValues = Readonly<Record<string, unknown>>;

/**
 * The credentials for a registry in the docker config, looked up like docker: `credHelpers`, then `credsStore`, then `auths`.
 * https://docs.docker.com/reference/cli/docker/login/#credential-stores
 * @returns undefined without credentials: many registries allow anonymous reads
 * @throws RegistryFailure (`REGISTRY_ACCESS`) when the file, or its helper, cannot be used
 */
export function credentialsFor(registry: string, env: NodeJS.ProcessEnv): Credentials | undefined {
  const path = join(env['DOCKER_CONFIG'] || join(env['HOME'] || '/', '.docker'), 'config.json');
  const config = readConfig(path);
  if (config === undefined) return undefined;
  const helper = textOf(valuesOf(config['credHelpers'])[registry]) ?? textOf(config['credsStore']);
  const fromHelper = helper === undefined || helper === '' ? undefined : askHelper(helper, registry, env);
  return fromHelper ?? fromAuths(path, valuesOf(valuesOf(config['auths'])[registry]));
}

function readConfig(path: string): JsonObjectValues | undefined {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return undefined;
  if (!stats.isFile() || stats.size > registryLimits.dockerConfigBytesMax)
    throw unusable(path, 'it is not a regular file, or too large');
  try {
    return valuesOf(JSON.parse(readFileSync(path, 'utf8')));
  } catch (error) {
    throw unusable(path, error instanceof SyntaxError ? 'it is not JSON' : (error as Error).message);
  }
}

function fromAuths(path: string, entry: JsonObjectValues): Credentials | undefined {
  const token = textOf(entry['identitytoken']);
  if (token !== undefined && token !== '') return { kind: 'token', token };
  const auth = textOf(entry['auth']);
  if (auth === undefined || auth === '') return undefined;
  const [, user, password] = /^([^:]+):(.*)$/s.exec(Buffer.from(auth, 'base64').toString('utf8')) ?? [];
  if (user === undefined || password === undefined)
    throw unusable(path, 'it contains an `auth` that is not of the form user:password');
  return { kind: 'password', user, password };
}

function valuesOf(value: unknown): JsonObjectValues {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { __proto__: null, ...value } : {};
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function unusable(path: string, why: string): RegistryFailure {
  return new RegistryFailure(
    'REGISTRY_ACCESS',
    `Cannot use ${path}: ${why}`,
    'Fix it, or write it again with `docker login`',
  );
}
