import { describe, expect, test } from 'vitest';
import { endpointsNamespace, releaseLimits, releaseNamespace, signatureFile } from './names.ts';
import { judgeSignatures, planSignatures, unsigned } from './signed.ts';
import type { Signer } from './signers.ts';

const field = (bytes: string | Buffer): Buffer => {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(Buffer.byteLength(bytes));
  return Buffer.concat([length, Buffer.from(bytes)]);
};
const keyOf = (who: string): Buffer => Buffer.concat([field('ssh-ed25519'), field(who.padEnd(32))]);

/** Well-formed, and good for nothing. */
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
const { signaturesMax, signatureFilesMax } = releaseLimits;

describe('of the signatures of a release', () => {
  test('those of strangers do not count, so many are not in the way of a good one', () => {
    const found = plan(own, ...many(signatureFilesMax - 1, (index) => `stranger ${index}`));
    expect(found).toMatchObject({ checks: [{ file: 'SHA256SUMS.sig' }] });
    expect('passedOver' in found && found.passedOver).toHaveLength(signatureFilesMax - 1);
  });

  test.each([
    ['one more by such keys refuses the release', [own, ...many(signaturesMax, () => 'alice')], 'more than 16 are by'],
    ['more files than may be refuse it', [own, ...many(signatureFilesMax, String)], 'there are more than 1024'],
    ['one that is not well-formed refuses it', [own, [signatureFile('x'), 'garbage\n']], 'SHA256SUMS.x.sig: it is not'],
  ] as const)('%s', (_title, signatures, says) => {
    expect(plan(...signatures)).toMatchObject({ problems: [{ message: expect.stringContaining(says) }] });
  });

  test('as many as may be by keys that are listed are asked about', () => {
    const found = plan(...many(signaturesMax, () => 'alice'));
    expect('checks' in found && found.checks).toHaveLength(signaturesMax);
  });

  test('one for updates of endpoints is passed over', () => {
    expect(plan([signatureFile(), signatureBy('alice', endpointsNamespace)])).toMatchObject({
      checks: [],
      passedOver: ['SHA256SUMS.sig: it is for namespace sluice-endpoints'],
    });
  });

  test('that are too few, what became of those by signers is said first, and not all of a thousand', () => {
    const found = plan(own, ...many(1000, (index) => `stranger ${index}`));
    if ('problems' in found) throw new Error('no plan');
    const run = { exitCode: 255, stdout: '', stderr: 'no' };
    const signed = judgeSignatures(
      found.checks.map((check) => [check, run]),
      found.passedOver,
    );
    const said = unsigned(signed, 1)?.message ?? '';
    expect(said).toContain('no good signature, 1 needed (SHA256SUMS.sig: ssh-keygen refuses it for alice: ');
    expect(said).toMatch(/; and 985 more\)$/);
  });
});
