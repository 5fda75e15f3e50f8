import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { zstdCompressSync } from 'node:zlib';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { isProblem } from '../documents.ts';
import { bundleLimits } from '../names.ts';
import { archiveLimits, printArchive, readArchive } from './archive.ts';
import { printTar, readTar } from './tar.ts';

const scratch = mkdtempSync(join(tmpdir(), 'sluice-archive-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const long = `profiles/${'p'.repeat(60)}.${'q'.repeat(60)}.${'r'.repeat(60)}/services/${'n'.repeat(63)}/${'m'.repeat(63)}.iptables`;
const files = new Map([
  ['SHA256SUMS', 'sums\n'],
  ['cluster.yaml', `${'x'.repeat(511)}\n`],
  ['nodes/node-a/node.yaml', 'x'.repeat(512)],
  ['profiles/default/base/sysctl.conf', ''],
  [`nodes/${'a'.repeat(63)}.${'b'.repeat(63)}/node.yaml`, 'two fields of ustar\n'],
  [long, '# ↦\n'],
]);

test('an archive reads back with long paths, empty files and a base', () => {
  expect(readArchive('a', printArchive({ files, base: 'c'.repeat(64) }))).toEqual({ files, base: 'c'.repeat(64) });
  expect(readArchive('a', printArchive({ files }))).toEqual({ files });
});

test('the order of the files does not change the archive', () => {
  expect(printArchive({ files: new Map([...files].toReversed()) })).toEqual(printArchive({ files }));
});

test('tar --zstd unpacks it, with long paths, owner 0 and time 0', () => {
  writeFileSync(join(scratch, 'a.tar.zst'), printArchive({ files }));
  const tar = (...args: readonly string[]): string =>
    execFileSync('tar', ['--zstd', '-C', scratch, '-f', join(scratch, 'a.tar.zst'), ...args], { encoding: 'utf8' });
  tar('-x');
  for (const [path, text] of files) expect(readFileSync(join(scratch, path), 'utf8')).toBe(text);
  expect(statSync(join(scratch, 'cluster.yaml')).mtimeMs).toBe(0);
  expect(
    new Set(
      tar('-tv', '--numeric-owner')
        .split('\n')
        .map((line) => line.slice(0, 14)),
    ),
  ).toEqual(new Set(['-rw-r--r-- 0/0', '']));
});

const pack = (tar: Uint8Array): Uint8Array => zstdCompressSync(tar);
const good = new Map([...files].map(([path, text]) => [path, Buffer.from(text)]));
/** One entry of a foreign tar: its type, its name, and a change of the header. */
function entry(type: string, name: string, content = '', change: (header: Buffer) => void = () => {}): Uint8Array {
  const block = Buffer.from(printTar(new Map([['cluster.yaml', Buffer.from(content)]])));
  block.fill(0, 0, 100);
  block.write(name, 0, 'latin1');
  block.write(type, 156, 'latin1');
  change(block);
  block.write(' '.repeat(8), 148);
  const sum = block.subarray(0, 512).reduce((total, byte) => total + byte, 0);
  block.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return block;
}
const join2 = (...parts: readonly Uint8Array[]): Uint8Array =>
  Buffer.concat([...parts.map((part) => part.subarray(0, -1024)), Buffer.alloc(1024)]);
const cluster = entry('0', 'cluster.yaml', 'x');
/** An extended header with a record. */
const extended = (record: string): Uint8Array => entry('x', 'path', record);
const size = (text: string) => (header: Buffer) => void header.write(text, 124, 'latin1');

/** Bytes of one value in repeat blocks of zstd: even 500 GB of them would be a short archive. */
const zeros = zstdCompressSync(Buffer.alloc(64 * 1024 * 1024));

const hostile: readonly [title: string, packed: () => Uint8Array, reason: RegExp][] = [
  ['a symbolic link', () => pack(entry('2', 'cluster.yaml')), /"cluster.yaml" is a symbolic link/],
  ['a hard link', () => pack(entry('1', 'cluster.yaml')), /a hard link/],
  ['a character device', () => pack(entry('3', 'cluster.yaml')), /a device/],
  ['a block device', () => pack(entry('4', 'cluster.yaml')), /a device/],
  ['a pipe', () => pack(entry('6', 'cluster.yaml')), /a pipe/],
  ['a directory', () => pack(entry('5', 'nodes/')), /a directory/],
  ['a sparse file', () => pack(entry('S', 'cluster.yaml')), /a sparse file/],
  ['an unknown type', () => pack(entry('Z', 'cluster.yaml')), /not a regular file/],
  ['the old type of regular files', () => pack(entry('\0', 'cluster.yaml')), /not a regular file/],
  ['a long name of GNU tar', () => pack(entry('L', '././@LongLink', 'cluster.yaml\0')), /in the form of GNU tar/],
  ['a global extended header', () => pack(entry('g', 'x', '11 path=ab\n')), /global extended header/],
  ['an absolute path', () => pack(entry('0', '/etc/passwd', 'x')), /"\/etc\/passwd" is not a file of a release/],
  ['a path out of the folder', () => pack(entry('0', 'nodes/../../x', 'x')), /is not a file of a release/],
  ['a path with ./', () => pack(entry('0', './cluster.yaml', 'x')), /is not a file of a release/],
  ['a path with a double slash', () => pack(entry('0', 'nodes//node.yaml', 'x')), /is not a file of a release/],
  ['.git, which names programs', () => pack(entry('0', '.git/config', 'x')), /is not a file of a release/],
  [
    'a marker that only a directory may have',
    () => pack(entry('0', '.sluice-complete', 'x')),
    /is not a file of a release/,
  ],
  [
    'a path out of the folder in an extended header',
    () => pack(join2(extended('15 path=../../x\n'), cluster)),
    /differs from the form that `sluice/,
  ],
  [
    'a short path in an extended header',
    () => pack(join2(extended('21 path=cluster.yaml\n'), cluster)),
    /differs from the form that `sluice/,
  ],
  [
    'two records in an extended header',
    () => pack(join2(extended('6 a=b\n21 path=cluster.yaml\n'), cluster)),
    /fields other than path/,
  ],
  ['a size in an extended header', () => pack(join2(extended('10 size=9\n'), cluster)), /fields other than path/],
  ['an extended header without a file', () => pack(extended('21 path=cluster.yaml\n')), /not a regular file/],
  [
    'a second extended header in a row',
    () => pack(join2(extended('15 path=../../x\n'), extended('15 path=../../x\n'))),
    /second extended header/,
  ],
  ['an extended header of a megabyte', () => pack(extended(`9 path=${'x'.repeat(1 << 20)}\n`)), /too long/],
  ['a duplicate path', () => pack(join2(cluster, cluster)), /out of order or duplicated/],
  ['paths out of order', () => pack(join2(cluster, entry('0', 'SHA256SUMS', 'x'))), /out of order/],
  [
    'a size in base 256',
    () => pack(entry('0', 'cluster.yaml', 'x', size('\x80\0\0\0\0\0\0\0\0\0\0\x01'))),
    /has no size/,
  ],
  ['a negative size', () => pack(entry('0', 'cluster.yaml', 'x', size('-0000000001\0'))), /has no size/],
  ['a file of 8 GiB', () => pack(entry('0', 'cluster.yaml', 'x', size('77777777777\0'))), /is larger than/],
  [
    'a file that is longer than the archive',
    () => pack(entry('0', 'cluster.yaml', 'x', size('00000010000\0'))),
    /it is truncated/,
  ],
  [
    'a mode that lets others write',
    () => pack(entry('0', 'cluster.yaml', 'x', (h) => void h.write('0000666\0', 100))),
    /differs from the form that `sluice pack`/,
  ],
  [
    'a set-user-id mode',
    () => pack(entry('0', 'cluster.yaml', 'x', (h) => void h.write('0004755\0', 100))),
    /differs from the form that `sluice pack`/,
  ],
  [
    'an owner',
    () => pack(entry('0', 'cluster.yaml', 'x', (h) => void h.write('root', 265))),
    /differs from the form that `sluice pack`/,
  ],
  [
    'a time',
    () => pack(entry('0', 'cluster.yaml', 'x', (h) => void h.write('14000000000\0', 136))),
    /differs from the form that `sluice pack`/,
  ],
  ['data after the name', () => pack(entry('0', 'cluster.yaml\0x', 'x')), /differs from the form that `sluice pack`/],
  [
    'data in the padding',
    () => pack(entry('0', 'cluster.yaml', 'x', (h) => void h.write('y', 600))),
    /differs from the form that `sluice pack`/,
  ],
  [
    'a wrong checksum',
    () => pack(Buffer.from(cluster).fill('1', 148, 149)),
    /differs from the form that `sluice pack`/,
  ],
  ['data after the end', () => pack(Buffer.concat([printTar(good), Buffer.alloc(512)])), /trailing data/],
  ['a tar that is truncated in a file', () => pack(printTar(good).subarray(0, 2000)), /it is truncated/],
  ['a tar without an end', () => pack(printTar(good).subarray(0, -1024)), /it is truncated/],
  ['a tar with half an end', () => pack(printTar(good).subarray(0, -512)), /truncated|regular/],
  ['an archive that is truncated', () => printArchive({ files }).subarray(0, -5), /it is truncated/],
  ['an archive with a flipped bit', () => flipped(printArchive({ files })), /not a zstd archive/],
  ['data after the archive', () => Buffer.concat([printArchive({ files }), Buffer.from('x')]), /trailing data/],
  ['an empty file', () => Buffer.alloc(0), /it is truncated/],
  ['a file of another format', () => Buffer.from('PK\x03\x04 a zip, perhaps'), /not a zstd archive/],
  ['64 MiB of zeros in a few kilobytes', () => zeros, /unpacks to more than/],
  [
    'bytes that are not UTF-8',
    () => pack(printTar(new Map([['cluster.yaml', Buffer.from([0xc3, 0x28])]]))),
    /is not UTF-8/,
  ],
  [
    'a base without a digest',
    () => pack(printTar(new Map([['.sluice-base', Buffer.from('x\n')]]))),
    /contains no digest/,
  ],
];

const flipped = (bytes: Uint8Array): Uint8Array => Buffer.from(bytes).fill((bytes.at(-1) ?? 0) ^ 1, bytes.length - 1);

describe('a hostile archive is refused with the reason:', () => {
  test.each(hostile)('%s', (_title, packed, reason) => {
    expect(readArchive('a', packed())).toMatchObject({
      code: 'ARCHIVE_INVALID',
      message: expect.stringMatching(reason),
    });
  });

  test('many small files that exceed the limit of a bundle together', () => {
    const step = 512 + bundleLimits.fileBytesMax;
    // Only the pages of the headers are touched.
    const tar = Buffer.alloc(65 * step + 1024);
    const octal = `${bundleLimits.fileBytesMax.toString(8).padStart(11, '0')}\0`;
    for (let n = 0; n < 65; n++)
      tar.set(entry('0', `nodes/n${100 + n}/node.yaml`, '', size(octal)).subarray(0, 512), n * step);
    expect(readTar(tar, () => true)).toContain('its files exceed');
  });

  test('an archive above the limit of packed bytes is refused unread', () => {
    const none = Buffer.alloc(archiveLimits.archiveBytesMax + 1);
    expect(readArchive('a', none)).toMatchObject({ message: expect.stringContaining('is larger than') });
  });

  test('a tar with a changed byte is refused, or equals what is written for the files read from it', () => {
    const base = Buffer.from(printTar(good));
    const change = fc.record({ at: fc.nat(base.length - 1), byte: fc.integer({ min: 0, max: 255 }) });
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 3 }), (changes) => {
        const tar = Buffer.from(base);
        for (const { at, byte } of changes) tar[at] = byte;
        const read = readArchive('a', pack(tar));
        if (isProblem(read)) return;
        const again = new Map([...read.files].map(([path, text]) => [path, Buffer.from(text)]));
        expect(tar.equals(printTar(again))).toBe(true);
      }),
      runs(2000),
    );
  });
});
