/** Signatures of a release, with an OpenPGP key that the caller has. */
import { findTool, run } from './run.ts';

/** Signs files with one key. Signatures have the time at which they were made: they alone differ between two builds. */
export interface Signer {
  /** Writes the text of a file with its signature around it. */
  readonly inline: (file: string, target: string) => void;
  /** Writes the signature alone, as text. */
  readonly detached: (file: string, target: string) => void;
  /** Writes the public key as apt reads it. */
  readonly publicKey: (target: string) => void;
  /** Writes the public key as text, as dnf reads it. */
  readonly armouredKey: (target: string) => void;
  /** Puts signatures into a package of rpm. */
  readonly rpm: (file: string) => void;
}

/** @param key a fingerprint, key id or address in the key ring of `GNUPGHOME`, or else of `HOME` */
export function signerOf(key: string): Signer {
  const names = ['GNUPGHOME', 'HOME'] as const;
  const environment = Object.fromEntries(
    names.flatMap((name) => (process.env[name] ? [[name, process.env[name]]] : [])),
  );
  const gpg = (...argv: readonly string[]): void =>
    void run('gpg', ['--batch', '--yes', '--quiet', '--local-user', key, ...argv], { environment });
  const sha = ['--digest-algo', 'SHA512'];
  return {
    inline: (file, target) => gpg(...sha, '--output', target, '--clear-sign', file),
    detached: (file, target) => gpg(...sha, '--armor', '--output', target, '--detach-sign', file),
    publicKey: (target) => gpg('--output', target, '--export', key),
    armouredKey: (target) => gpg('--armor', '--output', target, '--export', key),
    rpm: (file) => {
      const defines = [`_gpg_name ${key}`, `__gpg ${findTool('gpg')}`].flatMap((one) => ['--define', one]);
      // Without the variable it looks for a terminal.
      run('rpmsign', [...defines, '--addsign', file], { environment: { ...environment, GPG_TTY: '' } });
    },
  };
}
