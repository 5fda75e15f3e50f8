import { createSecureContext, type SecureContextOptions } from 'node:tls';
import { reasonOf } from '@sluice/cli';
import { readWithin } from '@sluice/transport/content/layout.ts';
import { Stopped } from '../../failure/failure.ts';
import { serveLimits } from './limits.ts';

/** The files (PEM) that a server of TLS shows itself with, and knows its clients by. */
export interface IdentityFiles {
  readonly certificate: string;
  readonly key: string;
  /** The authorities of clients; undefined: any client is served. */
  readonly clientAuthorities?: string | undefined;
}

/**
 * Reads them.
 * @throws Stopped (`INPUT_UNREADABLE`) for a file that cannot be read, or is not what it should be
 */
export function readIdentity({ certificate, key, clientAuthorities }: IdentityFiles): SecureContextOptions {
  const identity = {
    cert: read(certificate),
    key: read(key),
    ...(clientAuthorities !== undefined && { ca: read(clientAuthorities) }),
  };
  try {
    createSecureContext(identity);
  } catch (error) {
    throw unusable(`${certificate} and ${key}`, error);
  }
  return identity;
}

function read(path: string): string {
  try {
    const bytes = readWithin(path, serveLimits.certificateBytesMax);
    if (bytes !== undefined) return bytes.toString('latin1');
  } catch (error) {
    throw unusable(path, error);
  }
  throw unusable(path, new Error('no such file'));
}

function unusable(what: string, error: unknown): Stopped {
  return new Stopped({
    code: 'INPUT_UNREADABLE',
    level: 'error',
    message: `Cannot serve with ${what}: ${reasonOf(error)}`,
    hint: 'Pass a certificate and its key as PEM with --tls-cert and --tls-key, authorities of clients with --client-ca',
  });
}
