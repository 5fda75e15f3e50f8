import { mkdirSync } from 'node:fs';
import { execaSync } from 'execa';

/** The throw-away key that signs the packages of these tests. */
export const signer = 'release@example.com';

/** Makes a key ring with one key that signs without a passphrase. @returns a function that ends its agent */
export function makeKeyRing(folder: string): () => void {
  mkdirSync(folder, { mode: 0o700 });
  const env = { GNUPGHOME: folder };
  execaSync('gpg', ['--batch', '--quiet', '--passphrase', '', '--quick-gen-key', signer, 'ed25519', 'sign', 'never'], {
    env,
    timeout: 60_000,
  });
  return () => void execaSync('gpgconf', ['--kill', 'all'], { env, reject: false });
}
