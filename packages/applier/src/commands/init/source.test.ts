import { expect, test } from 'vitest';
import { CommandError } from '../../command-error.ts';
import { readSourceUrl } from './source.ts';

test.each([
  [
    'oci://registry.example.com/sluice/shop:production',
    'oci',
    { reference: 'registry.example.com/sluice/shop:production' },
  ],
  ['oci://[::1]:5000/shop@sha256:00', 'oci', { reference: '[::1]:5000/shop@sha256:00' }],
  ['https://cdn.example.com/sluice', 'https', { url: 'https://cdn.example.com/sluice' }],
  ['https://cdn.example.com/sluice#production', 'https', { url: 'https://cdn.example.com/sluice', tag: 'production' }],
  ['git+https://git.example.com/shop.git', 'git', { url: 'https://git.example.com/shop.git' }],
  [
    'git+ssh://git@git.example.com:2222/shop.git#release/1:rendered/dual',
    'git',
    { url: 'ssh://git@git.example.com:2222/shop.git', branch: 'release/1', path: 'rendered/dual' },
  ],
  [
    'git+https://git.example.com/shop.git#:rendered',
    'git',
    { url: 'https://git.example.com/shop.git', path: 'rendered' },
  ],
  ['dir:/media/stick', 'dir', { path: '/media/stick' }],
])('%s is a source', (url, kind, fields) => {
  expect(readSourceUrl(url)).toEqual({ kind, fields });
});

function refusal(url: string): string {
  try {
    return JSON.stringify(readSourceUrl(url));
  } catch (error) {
    if (!(error instanceof CommandError)) throw error;
    const [{ message, hint, code } = { message: '', hint: '', code: '' }] = error.problems;
    return `${message} [${code}] ${hint}`;
  }
}

test.each([
  'https://alice:s3cret@cdn.example.com/sluice',
  'https://s3cret@cdn.example.com/sluice',
  'oci://alice:s3cret@registry.example.com/shop:1',
  'git+https://s3cret@git.example.com/shop.git#main:x',
  'git+ssh://git:s3cret@git.example.com/shop.git',
  'https://bucket.example.com/sluice?X-Amz-Signature=s3cret',
  'dir:/media/stick?token=s3cret',
])('a credential in %s is refused and not printed', (url) => {
  expect(refusal(url)).toContain('does not belong in it [NODE_CONFIG_INVALID] Write the password, token or key');
  expect(refusal(url)).not.toContain('s3cret');
});

test.each([
  '',
  'registry.example.com/shop:1',
  'docker://registry.example.com/shop:1',
  'file:///etc/passwd',
  'git+ext::sh -c id',
  'ext::sh -c id',
  'oci:registry.example.com/shop:1',
  'oci://registry.example.com/shop:1#x',
  'dir:media',
  'dir://host/media',
  'javascript:alert(1)',
  'OCI://registry.example.com/shop:1',
])('%j is not the form of a source', (url) => {
  expect(refusal(url)).toMatch(
    /^Cannot use the source ".*": not the form of a source \[NODE_CONFIG_INVALID\] A source is oci:/,
  );
});

test('a message shows no control character, and no more than the start of a long text', () => {
  expect(refusal(`x\u009b2J${'a'.repeat(10_000)}`)).toMatch(
    /^Cannot use the source "x[^\u009b]{190,210}": not the form/,
  );
});
