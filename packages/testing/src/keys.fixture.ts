import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';

const tool = '/usr/bin/ssh-keygen';

/** Makes a key without a passphrase, named as its file. @returns its public key */
export function makeKey(file: string): string {
  execFileSync(tool, ['-q', '-t', 'ed25519', '-N', '', '-C', basename(file), '-f', file]);
  return publicKeyOf(file);
}

/** Its type and itself, as a line of allowed signers has them. */
export const publicKeyOf = (file: string): string => readFileSync(`${file}.pub`, 'utf8').split(' ', 2).join(' ');

/** A signature, as an operator makes it by hand. */
export const signBy = (file: string, namespace: string, input: string): string =>
  execFileSync(tool, ['-Y', 'sign', '-q', '-n', namespace, '-f', file], { input, encoding: 'utf8' });
