import { readSigners, releaseLimits, releaseNamespace } from '@sluice/bundle';
import { reasonOf } from '@sluice/cli';
import { CommandError, commandError } from '../../command-error.ts';
import { linksMax, readTrusted } from '../../inbox/descend.ts';

/** The public keys of those who sign releases. */
export interface SignerKeys {
  /** For allowed_signers, byte for byte the file that was given. */
  readonly text: string;
  /** Of keys that may sign releases, each once. */
  readonly principals: readonly string[];
}

/**
 * Reads and checks a file of public keys before it becomes allowed_signers.
 * @throws CommandError with every problem of it (`SIGNERS_INVALID`); no line of a private key is printed
 */
export function readKeys(path: string): SignerKeys {
  const text = readText(path);
  if (/PRIVATE KEY/.test(text))
    throw refused(
      path,
      'it has a private key',
      'A node needs public keys alone: the `.pub` files, in lines of allowed_signers',
    );
  const signers = readSigners(path, text);
  if ('problems' in signers) throw new CommandError(signers.problems);
  const principals = signers.filter(({ namespaces }) => namespaces.includes(releaseNamespace));
  if (principals.length === 0)
    throw refused(
      path,
      `none of its ${signers.length} keys may sign releases`,
      `Give a key namespaces="${releaseNamespace}"`,
    );
  return { text, principals: [...new Set(principals.map(({ principal }) => principal))] };
}

function readText(path: string): string {
  try {
    return readTrusted(path, undefined, releaseLimits.signersBytesMax, linksMax).toString('latin1');
  } catch (error) {
    throw refused(path, reasonOf(error), 'Pass --keys with the file that lists who may sign releases');
  }
}

const refused = (path: string, why: string, hint: string): CommandError =>
  commandError('SIGNERS_INVALID', `Cannot use the keys in ${path}: ${why}`, hint);
