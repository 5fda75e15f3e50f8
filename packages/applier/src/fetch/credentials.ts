import { join } from 'node:path';
import { createSecureContext } from 'node:tls';
import { reasonOf } from '@sluice/cli';
import type { CredentialsConfig } from '../config-source.ts';
import { linksMax, readTrusted } from '../inbox/descend.ts';
import { type Trust, trustOf } from '../inbox/trust.ts';
import type { Run } from '../kernel/command.ts';
import type { Credentials } from '@sluice/transport/http/client.ts';
import { fetchLimits } from './limits.ts';
import { SourceFailure } from './source.ts';

/** What credentials are read with. */
export interface CredentialsParts {
  /** `CREDENTIALS_DIRECTORY` of systemd. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly run: Run;
}

const trust = (subject: string): Trust => ({ ...trustOf(undefined), subject, isOfOneFile: true });

/**
 * Reads the user and password, or the token, for a source: `USER:PASSWORD` or `TOKEN` in one line.
 * @returns undefined where the config has none
 * @throws SourceFailure (`SOURCE_ACCESS`)
 */
export async function readCredentials(
  given: CredentialsConfig | undefined,
  parts: CredentialsParts,
): Promise<Credentials | undefined> {
  if (given === undefined) return undefined;
  const text = 'exec' in given ? await printedBy(given.exec, parts.run) : readSecret(secretPath(given, parts));
  const line = text.replace(/\r?\n$/, '');
  const [, user, password = ''] = /^([^:]*):(.*)$/.exec(line) ?? [];
  if (!/^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(line))
    throw unusable(nameOf(given), 'it is not one line of printable ASCII');
  return user === undefined ? { kind: 'token', token: line } : { kind: 'password', user, password };
}

/**
 * The path of a credential in a file, such as the private key of ssh.
 * @throws SourceFailure (`SOURCE_ACCESS`) for a credential of systemd that this process was not given
 */
export function secretPath(
  given: Exclude<CredentialsConfig, { exec: unknown }>,
  { environment }: Pick<CredentialsParts, 'environment'>,
): string {
  if ('file' in given) return given.file;
  const directory = environment['CREDENTIALS_DIRECTORY'];
  if (directory === undefined) throw unusable(nameOf(given), 'systemd gave this process no credentials');
  return join(directory, given.systemd);
}

/**
 * Reads certificates of authorities (PEM).
 * @throws SourceFailure (`SOURCE_ACCESS`)
 */
export const readAuthorities = (path: string): string =>
  readOwn(path, 'the certificates of authorities', fetchLimits.caBytesMax);

/**
 * Reads the certificate of this node with its key (PEM).
 * @throws SourceFailure (`SOURCE_ACCESS`)
 */
export function readIdentity(path: string): string {
  const pem = readSecret(path);
  try {
    createSecureContext({ cert: pem, key: pem });
    return pem;
  } catch (error) {
    throw unusable(path, `it is not a certificate with its key: ${reasonOf(error)}`);
  }
}

const readSecret = (path: string): string => readOwn(path, 'the credentials', fetchLimits.secretBytesMax);

function readOwn(path: string, subject: string, bytesMax: number): string {
  try {
    return readTrusted(path, trust(subject), bytesMax, linksMax).toString('utf8');
  } catch (error) {
    throw unusable(path, reasonOf(error));
  }
}

async function printedBy([file, ...args]: readonly [string, ...string[]], run: Run): Promise<string> {
  const { exitCode, stdout, why } = await run({
    file,
    args,
    timeoutMs: fetchLimits.helperTimeoutMs,
    outputBytesMax: fetchLimits.secretBytesMax,
  });
  if (exitCode === 0) return stdout;
  throw unusable(file, why);
}

const nameOf = (given: CredentialsConfig): string =>
  'exec' in given ? given.exec[0] : 'file' in given ? given.file : `the credential ${given.systemd}`;

function unusable(what: string, why: string): SourceFailure {
  const hint =
    'See `credentials` and `caFile` in /usr/share/doc/sluice/fetch.md; the fetch process runs as user sluice-fetch';
  return new SourceFailure('SOURCE_ACCESS', `Cannot use ${what}: ${why}`, hint);
}
