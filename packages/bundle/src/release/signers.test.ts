import { describe, expect, test } from 'vitest';
import { isInstant } from '../checks.ts';
import { releaseLimits } from '../names.ts';
import { readSigners } from './signers.ts';

/** A real ed25519 key. */
const key = 'AAAAC3NzaC1lZDI1NTE5AAAAINkd1GuqgUNYJxLoczmKOwHZw+/fiky2lNVgqD1YBoFp';
const options = 'namespaces="sluice-release"';
const line = `alice@example.com ${options} ssh-ed25519 ${key}`;
const field = (bytes: Buffer): Buffer => {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
};
const rsa = (bytes: number): string =>
  Buffer.concat(
    [Buffer.from('ssh-rsa'), Buffer.from([1, 0, 1]), Buffer.concat([Buffer.from([0]), Buffer.alloc(bytes, 0xff)])].map(
      field,
    ),
  ).toString('base64');

describe('allowed_signers', () => {
  test.each([
    ['a plain line', line],
    ['comments, empty lines and a comment after the key', `# who may sign\n\n${line} alice's laptop\n`],
    ['several namespaces', line.replace('sluice-release', 'git,sluice-release')],
    ['times in UTC', line.replace(options, `${options},valid-after="20260101Z",valid-before="20280229235959Z"`)],
    ['an RSA key of 2048 bits', `alice ${options} ssh-rsa ${rsa(256)}`],
  ])('is read with %s', (_title, text) => {
    expect(readSigners('f', text)).toMatchObject([{ namespaces: expect.arrayContaining(['sluice-release']) }]);
  });

  test.each([
    ['no namespaces: the key would sign anything', `alice ssh-ed25519 ${key}`, 'no namespaces'],
    ['no namespaces beside other options', `alice valid-after="20260101Z" ssh-ed25519 ${key}`, 'no namespaces'],
    ['a namespace with a wildcard', line.replace('sluice-release', 'sluice-*'), 'wildcards'],
    ['a negated namespace', line.replace('sluice-release', '!git'), 'wildcards'],
    ['the principal *', line.replace('alice@example.com', '*'), 'not one principal'],
    ['a principal with a wildcard', line.replace('alice', 'a?ice'), 'not one principal'],
    ['a list of principals', line.replace('alice@example.com', 'alice,bob'), 'not one principal'],
    ['a negated principal', line.replace('alice@example.com', '!alice'), 'not one principal'],
    ['a quoted principal', line.replace('alice@example.com', '"alice"'), 'not one principal'],
    ['a certificate authority', line.replace(options, `cert-authority,${options}`), 'not allowed as an option'],
    ['local time', line.replace(options, `${options},valid-before="20300101"`), 'not a time in UTC'],
    ['a day that no month has', line.replace(options, `${options},valid-before="20300231Z"`), 'not a time in UTC'],
    ['an option twice', line.replace(options, `${options},${options}`), 'twice'],
    ['an unknown option', line.replace(options, `${options},verify-required="x"`), 'not allowed as an option'],
    ['options in capitals', line.replace('namespaces', 'Namespaces'), 'not allowed as an option'],
    ['a comma at the end', line.replace(options, `${options},`), 'comma'],
    ['no key', `alice ${options}`, 'no key'],
    ['a cut key', line.slice(0, -4), 'truncated'],
    ['a key of another type', line.replace('ssh-ed25519 ', 'ssh-rsa '), 'not of type'],
    ['a DSA key', line.replace('ssh-ed25519 ', 'ssh-dss '), 'not a key type'],
    ['an RSA key of 1024 bits', `alice ${options} ssh-rsa ${rsa(128)}`, 'fewer than 2048'],
    ['base64 that is not canonical', line.replace(key, `${key}=`), 'canonical'],
    ['a key twice', `${line}\n${line.replace('alice', 'bob')}`, 'repeats the key of line 1'],
    ['a tab', line.replace(' ssh', '\tssh'), 'printable ASCII'],
    ['a carriage return', `${line}\r\n`, 'printable ASCII'],
    ['a letter that looks like another', line.replace('alice', '\u0430lice'), 'printable ASCII'],
    ['a space in front', ` ${line}`, 'not one principal'],
    ['two spaces', line.replace(' ssh', '  ssh'), 'not a key type'],
    ['an invalid line after a valid one', `${line}\nnonsense`, 'not allowed as an option'],
  ])('is refused with %s', (_title, text, expected) => {
    const read = readSigners('f', text);
    expect('problems' in read && read.problems.map(({ message }) => message).join()).toContain(expected);
  });

  test('is refused when it is too large', () => {
    expect(readSigners('f', `${line}\n`.repeat(5_000))).toHaveProperty('problems');
    const comments = '# x\n'.repeat(100_000);
    expect(readSigners('f', comments)).toHaveProperty('problems');
    expect(readSigners('f', comments, releaseLimits.receiptSignersBytesMax), 'unless it may be').toEqual([]);
  });
});

test.each([
  ['2028-02-29T23:59:59Z', true],
  ['2100-02-29T00:00:00Z', false],
  ['2027-13-01T00:00:00Z', false],
  ['2027-01-01T24:00:00Z', false],
  ['2027-01-01T00:00:00+00:00', false],
])('%s is a time of the calendar: %s', (text, expected) => {
  expect(isInstant(text)).toBe(expected);
});
