import { execFileSync } from 'node:child_process';
import { readSignature, type SignatureNamespace } from '@sluice/bundle';

/** The path in every distribution; PATH is not used. */
export const sshKeygen = '/usr/bin/ssh-keygen';

/**
 * Signs a text. Keeps the environment, unlike on a node: ssh-keygen needs the agent, the terminal and the ssh settings of the user.
 * @param key a private key, or a public one whose private key is in an agent or on a token
 * @param timeoutMs for what runs unattended; left out: the operator may enter a passphrase
 * @returns the armoured signature; or why there is none, in words
 */
export function signText(
  text: string,
  key: string,
  namespace: SignatureNamespace,
  timeoutMs?: number,
): { readonly signature: string; readonly keyType: string } | { readonly why: string } {
  let signature: string;
  try {
    signature = execFileSync(sshKeygen, ['-Y', 'sign', '-q', '-n', namespace, '-f', key], {
      input: text,
      encoding: 'latin1',
      stdio: ['pipe', 'pipe', 'inherit'],
      timeout: timeoutMs,
    });
  } catch {
    return { why: 'ssh-keygen failed; see its message above' };
  }
  const claim = readSignature(signature, namespace);
  if (typeof claim === 'string') return { why: `nodes would refuse the signature: ${claim}` };
  return { signature, keyType: claim.keyType };
}
