import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { readSignature } from './armour.ts';

/** Written by `ssh-keygen -Y sign -n sluice-release` of OpenSSH 9.2. */
const real = `-----BEGIN SSH SIGNATURE-----
U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAg2R3Ua6qBQ1gnEuhzOYo7AdnD79
+KTLaU1WCoPVgGgWkAAAAOc2x1aWNlLXJlbGVhc2UAAAAAAAAABnNoYTUxMgAAAFMAAAAL
c3NoLWVkMjU1MTkAAABAHE00WoeMqvuxkw9/HXZQ5WKKNSfvIGpxsa+GLWgjVNH3Bpxudl
i/7jX27K4gfkOm3w7fLUd4QG9H1ROSmU9bCA==
-----END SSH SIGNATURE-----
`;
const blob = Buffer.from(real.split('\n').slice(1, -2).join(''), 'base64');
const armour = (bytes: Buffer): string =>
  `-----BEGIN SSH SIGNATURE-----\n${bytes.toString('base64').replaceAll(/.{70}/g, '$&\n')}\n-----END SSH SIGNATURE-----\n`;
const swap = (from: string, to: string): string =>
  armour(Buffer.from(blob.toString('latin1').replace(from, to), 'latin1'));

test('the key of a signature by OpenSSH is read', () => {
  expect(readSignature(real)).toEqual({
    keyType: 'ssh-ed25519',
    key: 'AAAAC3NzaC1lZDI1NTE5AAAAINkd1GuqgUNYJxLoczmKOwHZw+/fiky2lNVgqD1YBoFp',
  });
  expect(readSignature(armour(blob))).toEqual(readSignature(real));
});

test.each([
  ['garbage after the end', `${real}rm -rf /\n`],
  ['an empty line after the end', `${real}\n`],
  ['two signatures', real + real],
  ['garbage in front', `x\n${real}`],
  ['no last line end', real.slice(0, -1)],
  ['Windows line ends', real.replaceAll('\n', '\r\n')],
  ['a header', real.replace('-----\n', '-----\nComment: x\n')],
  ['base64 that is not canonical', real.replace('bCA==', 'bCB==')],
  ['an empty armour', '-----BEGIN SSH SIGNATURE-----\n-----END SSH SIGNATURE-----\n'],
  ['namespace git', swap('\0\0\0\x0esluice-release', '\0\0\0\x03git')],
  ['namespace file', swap('\0\0\0\x0esluice-release', '\0\0\0\x04file')],
  ['another magic', swap('SSHSIG', 'SSHSIH')],
  ['another version', swap('SSHSIG\0\0\0\x01', 'SSHSIG\0\0\0\x02')],
  ['hash sha1', swap('\0\0\0\x06sha512', '\0\0\0\x04sha1')],
  ['data in the reserved field', swap('release\0\0\0\0', 'release\0\0\0\x01x')],
  ['bytes after the signature', armour(Buffer.concat([blob, Buffer.from([0])]))],
  ['a length beyond the end', swap('SSHSIG\0\0\0\x01\0\0\0', 'SSHSIG\0\0\0\x01\xff\xff\xff')],
  ['17 KiB', real.replace('-----\n', `-----\n${'A'.repeat(17 * 1024)}\n`)],
])('a signature file with %s is refused', (_title, text) => {
  expect(readSignature(text)).toBeTypeOf('string');
});

test('a truncated signature is refused wherever it ends', () => {
  for (let length = 0; length < blob.length; length++)
    expect(readSignature(armour(blob.subarray(0, length)))).toBeTypeOf('string');
});

test('no bytes make the reader throw', () => {
  const read = (bytes: Uint8Array): unknown =>
    readSignature(armour(Buffer.concat([Buffer.from('SSHSIG\0\0\0\x01'), bytes])));
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      expect(read(bytes)).toBeTypeOf('string');
    }),
    runs(500),
  );
});
