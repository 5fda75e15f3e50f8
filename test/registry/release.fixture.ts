import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isProblem, makeRelease, printRelease, sumsOf } from '@sluice/bundle';
import { writeRelease } from '../../packages/delivery/src/emit/release.ts';
import { readTree } from '../../packages/renderer/src/load/tree.ts';

const example = join(import.meta.dirname, '../../examples/11-mixed/out');

/** Writes a release of two profiles with signatures that are well-formed, but not valid. */
export function makeSampleRelease(dir: string, serial: number, change?: { profile: string; text: string }): void {
  const bundle = readTree(example);
  if (isProblem(bundle)) throw new Error(bundle.message);
  const files = new Map(bundle);
  if (change) {
    const path = [...files.keys()].find((one) => one.startsWith(`profiles/${change.profile}/services/`)) as string;
    files.set(path, `${change.text}${files.get(path)}`);
  }
  const made = makeRelease(files, { serial, source: 'c'.repeat(40) });
  if (!('serial' in made)) throw new Error(JSON.stringify(made));
  const text = printRelease(made);
  rmSync(dir, { recursive: true, force: true });
  writeRelease(dir, files, { release: text, sums: sumsOf(files, text), waves: undefined });
  writeFileSync(join(dir, 'SHA256SUMS.sig'), signatureOf(`release ${serial}`));
}

/** Text in the form of a signature of `ssh-keygen` (`PROTOCOL.sshsig`), which is not valid. @param content distinguishes it */
export function fakeSignature(content: string, namespace = 'sluice-wave'): string {
  const field = (bytes: string | Buffer): Buffer => {
    const length = Buffer.alloc(4);
    length.writeUInt32BE(Buffer.byteLength(bytes));
    return Buffer.concat([length, Buffer.from(bytes)]);
  };
  const key = Buffer.concat([field('ssh-ed25519'), field(Buffer.alloc(32))]);
  const fields = [key, namespace, '', 'sha512', content].map(field);
  const blob = Buffer.concat([Buffer.from('SSHSIG\0\0\0\u0001'), ...fields]).toString('base64');
  const lines = blob.replaceAll(/.{1,70}/g, '$&\n');
  return `-----BEGIN SSH SIGNATURE-----\n${lines}-----END SSH SIGNATURE-----\n`;
}

/** The same, for a release. @param content distinguishes it */
export const signatureOf = (content: string): string => fakeSignature(content, 'sluice-release');

/** Path → bytes of a directory. */
export function filesOf(dir: string): Readonly<Record<string, string>> {
  const entries = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = entries.map((entry) => join(entry.parentPath, entry.name)).toSorted();
  return Object.fromEntries(paths.map((path) => [path.slice(dir.length + 1), readFileSync(path, 'latin1')]));
}
