import { printArchive, receiptFile } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { archivePath, type CarriedReceipt, packReceipts, placeOf, unpackReceipts } from './archive.ts';
import { receiptTransportLimits } from './limits.ts';

const node = 'node-a';
const receipt = (number: number, bytes = 100): CarriedReceipt => ({
  number,
  text: `${number}`.padEnd(bytes, '.'),
  signature: `signature of ${number}`,
});
const numbers = (read: ReturnType<typeof unpackReceipts>) =>
  typeof read === 'string' ? read : read.map(({ number }) => number);
const packed = (receipts: readonly CarriedReceipt[]) => packReceipts(node, receipts)?.archive ?? new Uint8Array();
const pack = (files: Readonly<Record<string, string>>) => printArchive({ files: new Map(Object.entries(files)) });

test('returns the receipts of a node, the newest first, with their signatures', () => {
  const receipts = [receipt(2), receipt(30), receipt(1)];
  expect(unpackReceipts('a', node, packed(receipts))).toEqual([receipt(30), receipt(2), receipt(1)]);
});

test('the same receipts are the same bytes, in whatever order they were read', () => {
  const receipts = [receipt(1), receipt(2), receipt(3)];
  expect(packed(receipts)).toEqual(packed(receipts.toReversed()));
});

test('packs the newest receipts, within the bounds, and none without a signature', () => {
  const many = Array.from({ length: 100 }, (_, index) => receipt(index + 1));
  expect(numbers(unpackReceipts('a', node, packed(many)))).toEqual([100, 99, 98, 97, 96, 95, 94, 93]);
  const large = Array.from({ length: 8 }, (_, index) => ({
    ...receipt(index + 1, 16_000),
    signature: 's'.repeat(16_000),
  }));
  const { archive, count } = packReceipts(node, large) ?? { archive: new Uint8Array(), count: 0 };
  expect(numbers(unpackReceipts('a', node, archive))).toHaveLength(count);
  expect(count).toBe(8);
  const unsigned = [{ ...receipt(2), signature: undefined }, receipt(1)];
  expect(numbers(unpackReceipts('a', node, packed(unsigned)))).toEqual([1]);
  expect(packReceipts(node, [])).toBeUndefined();
  expect(packReceipts(node, [{ ...receipt(2), signature: undefined }])).toBeUndefined();
});

test.each([
  ['no archive', Buffer.from('x'), 'it is not a zstd archive'],
  ['another file', pack({ 'release.yaml': 'x' }), '"release.yaml" is not a file of'],
  ['a path out of the folder', pack({ [`../${receiptFile({ node, number: 1 })}`]: 'x' }), 'is not a file of'],
  ['a receipt of another node', pack({ [receiptFile({ node: 'node-b', number: 1 })]: 'x' }), 'of another node, node-b'],
  ['an endless receipt', pack({ [receiptFile({ node, number: 1 })]: 'x'.repeat(20_000) }), 'is too large'],
  ['a bomb', pack({ [receiptFile({ node, number: 1 })]: 'x'.repeat(20_000_000) }), 'it unpacks to more than'],
  ['a large file', Buffer.alloc(receiptTransportLimits.archiveBytesMax + 1), 'is larger than'],
])('refuses an archive that is, or has, %s', (_title, bytes, why) => {
  expect(unpackReceipts('node-a.tar.zst', node, bytes)).toContain(why);
});

test('a receipt without its signature is not hidden: the reader says so', () => {
  const archive = pack({ [receiptFile({ node, number: 7 })]: 'x' });
  expect(unpackReceipts('a', node, archive)).toEqual([{ number: 7, text: 'x', signature: undefined }]);
});

test('every node has a place whose name is a tag, a file name and a part of a ref', () => {
  const longest = `${'a'.repeat(63)}.${'b'.repeat(63)}.${'c'.repeat(63)}.${'d'.repeat(61)}`;
  for (const name of ['node-a', 'n', longest, 'node.lock', '10.0.0.1']) {
    const place = placeOf(name);
    expect(place.folder).toMatch(/^[0-9a-f]{2}$/);
    expect(place.name).toMatch(/^[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}$/);
    expect(place.name).not.toMatch(/\.lock$|\.\.|\.$/);
  }
  expect(archivePath('node-a')).toBe('66/node-a.tar.zst');
  expect(placeOf(longest).name).toMatch(/^sha256_[0-9a-f]{64}$/);
});
