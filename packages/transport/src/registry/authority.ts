import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isLoopback } from '../http/addresses.ts';
import { type Access, authorization, type Credentials, type HttpOptions } from '../http/client.ts';
import type { HttpRequest, HttpResponse } from '../http/exchange.ts';
import { RegistryFailure } from '../http/failure.ts';
import { askHelper } from './helper.ts';
import { registryLimits } from '../http/limits.ts';
import type { Reference } from './reference.ts';

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

interface Source extends Pick<HttpOptions, 'credentials'> {
  readonly env: NodeJS.ProcessEnv;
}

/** Authenticates to a registry. Credentials are neither read nor sent before the registry asks for them. */
export class Authority implements Access {
  readonly hint: string;
  readonly #credentials: NonNullable<HttpOptions['credentials']>;
  readonly #send: (url: URL, question: HttpRequest) => Promise<HttpResponse>;
  #header: string | undefined;

  constructor(
    { registry }: Reference,
    { credentials, env }: Source,
    send: (url: URL, question: HttpRequest) => Promise<HttpResponse>,
  ) {
    this.#credentials = credentials ?? (() => credentialsFor(registry, env));
    this.#send = send;
    this.hint = `Log in with a permitted account: docker login ${registry}; sluiced: check source.credentials`;
  }

  headers(): Readonly<Record<string, string>> {
    return this.#header === undefined ? {} : { authorization: this.#header };
  }

  /**
   * Handles the challenge of a 401.
   * @returns whether there are new credentials to try
   * @throws RegistryFailure
   */
  async renew({ headers }: HttpResponse): Promise<boolean> {
    const challenge = readChallenge(headers['www-authenticate']);
    if (challenge === undefined) return false;
    const credentials = await this.#credentials();
    const before = this.#header;
    this.#header = challenge.kind === 'basic' ? basic(credentials) : await this.#token(challenge, credentials);
    return this.#header !== undefined && this.#header !== before;
  }

  /** https://distribution.github.io/distribution/spec/auth/token/ and …/oauth/ */
  async #token(challenge: Challenge & { kind: 'bearer' }, credentials: Credentials | undefined): Promise<string> {
    const realm = this.#realm(challenge.realm);
    const asked = Object.entries({ service: challenge.service, scope: challenge.scope }).filter(
      (pair): pair is [string, string] => pair[1] !== undefined,
    );
    const bytesMax = registryLimits.tokenBytesMax;
    const answer =
      credentials?.kind === 'token'
        ? await this.#send(realm, { method: 'POST', bytesMax, ...refresh(credentials.token, asked) })
        : await this.#send(withQuery(realm, asked), { method: 'GET', bytesMax, headers: basicHeaders(credentials) });
    const token = answer.status === 200 ? tokenOf(answer.body) : undefined;
    if (token !== undefined) return `Bearer ${token}`;
    const message = `Cannot get a token from ${realm.origin}: the server answered ${answer.status}`;
    throw new RegistryFailure('REGISTRY_ACCESS', message, this.hint);
  }

  /** A password is sent only over TLS or to this machine. */
  #realm(text: string): URL {
    const realm = URL.canParse(text) ? new URL(text) : undefined;
    if (realm?.protocol === 'https:' || (realm?.protocol === 'http:' && isLoopback(realm.hostname))) return realm;
    const message = `Cannot get a token from ${JSON.stringify(text.slice(0, 200))}: it is not an https URL`;
    throw new RegistryFailure('REGISTRY_ACCESS', message, 'Check the configuration of the registry');
  }
}

const basic = (credentials: Credentials | undefined): string | undefined =>
  credentials?.kind === 'password' ? authorization(credentials) : undefined;

function basicHeaders(credentials: Credentials | undefined): Readonly<Record<string, string>> {
  const header = basic(credentials);
  return header === undefined ? {} : { authorization: header };
}

function refresh(token: string, asked: readonly (readonly [string, string])[]): Pick<HttpRequest, 'headers' | 'body'> {
  const form = new URLSearchParams([
    ['grant_type', 'refresh_token'],
    ['client_id', 'sluice'],
    ['refresh_token', token],
    ...asked.map((pair): [string, string] => [...pair]),
  ]);
  return { headers: { 'content-type': 'application/x-www-form-urlencoded' }, body: form.toString() };
}

function withQuery(url: URL, asked: readonly (readonly [string, string])[]): URL {
  const whole = new URL(url);
  for (const [name, value] of asked) whole.searchParams.append(name, value);
  return whole;
}

function tokenOf(body: Buffer): string | undefined {
  try {
    const { token, access_token: other } = JSON.parse(body.toString('utf8')) as Record<string, unknown>;
    const found = typeof token === 'string' && token !== '' ? token : other;
    return typeof found === 'string' && /^[\x21-\x7e]+$/.test(found) ? found : undefined;
  } catch {
    return undefined;
  }
}

/** The challenge of a registry: `WWW-Authenticate`. */
type Challenge =
  | { readonly kind: 'basic' }
  | {
      readonly kind: 'bearer';
      readonly realm: string;
      readonly service: string | undefined;
      readonly scope: string | undefined;
    };

/**
 * Parses `WWW-Authenticate` (RFC 9110, section 11.6.1) and returns the first supported challenge.
 * @returns undefined when there is none
 */
export function readChallenge(header: string | undefined): Challenge | undefined {
  if (header === undefined || header.length > 8192) return undefined;
  const scheme = /(?:^|,)\s*(basic|bearer)(?=\s|,|$)/i.exec(header);
  if (scheme === null) return undefined;
  if (scheme[1]?.toLowerCase() === 'basic') return { kind: 'basic' };
  const parameters = new Map<string, string>();
  for (const [, name = '', quoted, plain] of header
    .slice(scheme.index + scheme[0].length)
    .matchAll(/([a-z_]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))/gi))
    if (!parameters.has(name.toLowerCase()))
      parameters.set(name.toLowerCase(), plain ?? (quoted ?? '').replace(/\\(.)/g, '$1'));
  const realm = parameters.get('realm');
  if (realm === undefined) return undefined;
  return { kind: 'bearer', realm, service: parameters.get('service'), scope: parameters.get('scope') };
}
