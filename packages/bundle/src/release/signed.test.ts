import { describe, expect, test } from 'vitest';
import { endpointsNamespace, releaseLimits, releaseNamespace, signatureFile } from '../names.ts';
import { judgeSignatures, planSignatures, unsigned } from './signed.ts';
import type { Signer } from './signers.ts';

const field = (bytes: string | Buffer): Buffer => {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(Buffer.byteLength(bytes));
  return Buffer.concat([length, Buffer.from(bytes)]);
};
const keyOf = (who: string): Buffer => Buffer.concat([field('ssh-ed25519'), field(who.padEnd(32))]);

/** Well-formed and invalid. */
function signatureBy(who: string, namespace: string = releaseNamespace): string {
  const fields = [keyOf(who), namespace, '', 'sha512', 'x'].map(field);
  const blob = Buffer.concat([Buffer.from('SSHSIG\0\0\0\u0001'), ...fields]).toString('base64');
  return `-----BEGIN SSH SIGNATURE-----\n${blob.replaceAll(/.{1,70}/g, '$&\n')}-----END SSH SIGNATURE-----\n`;
}
const alice: Signer = {
  principal: 'alice',
  namespaces: [releaseNamespace],
  keyType: 'ssh-ed25519',
  key: keyOf('alice').toString('base64'),
  line: '',
};
const many = (count: number, who: (index: number) => string): (readonly [string, string])[] =>
  Array.from({ length: count }, (_, index) => [signatureFile(`s${index}`), signatureBy(who(index))]);
const plan = (...signatures: readonly (readonly [string, string])[]) => planSignatures(new Map(signatures), [alice]);
const own = [signatureFile(), signatureBy('alice')] as const;
const { signatureChecksMax, signatureFilesMax } = releaseLimits;

describe('the signatures of a release:', () => {
  test('many of unknown keys are ignored and do not block a valid one', () => {
    const found = plan(own, ...many(signatureFilesMax - 1, (index) => `unknown ${index}`));
    expect(found).toMatchObject({ checks: [{ file: 'SHA256SUMS.sig' }] });
    expect(found.passedOver).toHaveLength(signatureFilesMax - 1);
  });

  test.each([
    ['garbage', [signatureFile('x'), 'garbage\n'], 'SHA256SUMS.x.sig: it is not exactly one SSH signature'],
    ['an empty file', [signatureFile('x'), ''], 'SHA256SUMS.x.sig: it is not exactly one SSH signature'],
    ['a megabyte', [signatureFile('x'), 'A'.repeat(1 << 20)], 'SHA256SUMS.x.sig: it is larger than 16384 bytes'],
  ] as const)('%s is ignored beside a valid one', (_title, other, why) => {
    expect(plan(other, own)).toMatchObject({ checks: [{ file: 'SHA256SUMS.sig' }], passedOver: [why] });
  });

  test('a flood of files does not displace SHA256SUMS.sig or those named after signers', () => {
    const named = [signatureFile('alice'), signatureBy('alice')] as const;
    const found = plan(...many(2 * signatureFilesMax, String), own, named);
    expect(found.checks.map(({ file }) => file)).toEqual(['SHA256SUMS.alice.sig', 'SHA256SUMS.sig']);
    expect(found.passedOver.at(-1)).toBe(
      `${signatureFilesMax + 2} more signature files: only ${signatureFilesMax} are read`,
    );
  });

  test('a limited number is verified, and no signer uses up the checks of another', () => {
    const bob: Signer = { ...alice, principal: 'bob', key: keyOf('bob').toString('base64') };
    const copies = many(2 * signatureChecksMax, () => 'alice');
    const found = planSignatures(new Map([...copies, [signatureFile('z'), signatureBy('bob')]]), [alice, bob]);
    expect(found.checks).toHaveLength(signatureChecksMax);
    expect(found.checks.slice(0, 2).map(({ signer }) => signer.principal)).toEqual(['alice', 'bob']);
    expect(found.passedOver).toHaveLength(signatureChecksMax + 1);
  });

  test('one for endpoint updates is ignored', () => {
    expect(plan([signatureFile(), signatureBy('alice', endpointsNamespace)])).toMatchObject({
      checks: [],
      passedOver: ['SHA256SUMS.sig: it is for namespace sluice-endpoints'],
    });
  });

  test('if too few, the error lists those by signers first, and not all of a thousand', () => {
    const found = plan(own, ...many(1000, (index) => `unknown ${index}`));
    const run = { exitCode: 255, stdout: '', stderr: 'no' };
    const signed = judgeSignatures(
      found.checks.map((check) => [check, run]),
      found.passedOver,
    );
    const said = unsigned(signed, 1)?.message ?? '';
    expect(said).toContain('no good signature, 1 needed (SHA256SUMS.sig: ssh-keygen refuses it for alice: ');
    expect(said).toMatch(/; and 985 more\)$/);
  });

  test.each([
    [
      'has expired: verify time 2026-11-29T11:00:44 > valid-before 2020-01-01T00:00:00',
      'expired at 2020-01-01T00:00:00',
    ],
    [
      'is not yet valid: verify time 2026-11-29T11:00:44 < valid-after 2099-01-01T00:00:00',
      'is not yet valid: from 2099-01-01T00:00:00',
    ],
  ])('a key that %s is said to be one', (text, why) => {
    const stderr = `/tmp/x/allowed_signers:1: key ${text}\n`;
    const run = { exitCode: 255, stdout: 'Could not verify signature.\n', stderr };
    const { passedOver } = judgeSignatures([[plan(own).checks[0]!, run]], []);
    expect(passedOver[0]).toMatch(`SHA256SUMS.sig: the key of alice ${why} (valid-`);
  });
});
