import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { zstdCompressSync } from 'node:zlib';
import { runs } from '@sluice/testing';
import fc from 'fast-check';
import { afterAll, describe, expect, test } from 'vitest';
import { isProblem } from '../documents.ts';
import { bundleLimits } from '../limits.ts';
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

test('what is written is read, with long paths, empty files and a base', () => {
  expect(readArchive('a', printArchive({ files, base: 'c'.repeat(64) }))).toEqual({ files, base: 'c'.repeat(64) });
  expect(readArchive('a', printArchive({ files }))).toEqual({ files });
});

test('the order of the files changes no byte', () => {
  expect(printArchive({ files: new Map([...files].toReversed()) })).toEqual(printArchive({ files }));
});

test('tar --zstd unpacks it, long paths too, and says that nobody owns it at no time', () => {
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
/** One entry as some other tar writes it: its type, its name, and what is changed in the header. */
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
/** The extended header of a path, or of whatever the record says. */
const extended = (record: string): Uint8Array => entry('x', 'path', record);
const size = (text: string) => (header: Buffer) => void header.write(text, 124, 'latin1');

/** Bytes of one value, packed by hand into blocks that repeat: 500 GB of them would be a short archive, too. */
const zeros = zstdCompressSync(Buffer.alloc(64 * 1024 * 1024));

const hostile: readonly [title: string, packed: () => Uint8Array, says: RegExp][] = [
  ['a symbolic link', () => pack(entry('2', 'cluster.yaml')), /"cluster.yaml" is a symbolic link/],
  ['a hard link', () => pack(entry('1', 'cluster.yaml')), /a hard link/],
  ['a character device', () => pack(entry('3', 'cluster.yaml')), /a device/],
  ['a block device', () => pack(entry('4', 'cluster.yaml')), /a device/],
  ['a pipe', () => pack(entry('6', 'cluster.yaml')), /a pipe/],
  ['a directory', () => pack(entry('5', 'nodes/')), /a directory/],
  ['a sparse file', () => pack(entry('S', 'cluster.yaml')), /a sparse file/],
  ['a type that nobody knows', () => pack(entry('Z', 'cluster.yaml')), /no regular file/],
  ['the old type of regular files', () => pack(entry('\0', 'cluster.yaml')), /no regular file/],
  ['a long name of GNU tar', () => pack(entry('L', '././@LongLink', 'cluster.yaml\0')), /in the form of GNU tar/],
  ['a header for all that follows', () => pack(entry('g', 'x', '11 path=ab\n')), /for all that follows/],
  ['an absolute path', () => pack(entry('0', '/etc/passwd', 'x')), /"\/etc\/passwd", which no release has/],
  ['a path that leads out', () => pack(entry('0', 'nodes/../../x', 'x')), /which no release has/],
  ['a path that goes a longer way', () => pack(entry('0', './cluster.yaml', 'x')), /which no release has/],
  ['a path with a double slash', () => pack(entry('0', 'nodes//node.yaml', 'x')), /which no release has/],
  ['.git, which names programs', () => pack(entry('0', '.git/config', 'x')), /which no release has/],
  ['a mark that only a directory has', () => pack(entry('0', '.sluice-complete', 'x')), /which no release has/],
  [
    'a path that leads out in an extended header',
    () => pack(join2(extended('15 path=../../x\n'), cluster)),
    /not as `sluice/,
  ],
  [
    'a short path in an extended header',
    () => pack(join2(extended('21 path=cluster.yaml\n'), cluster)),
    /not as `sluice/,
  ],
  [
    'two records in an extended header',
    () => pack(join2(extended('6 a=b\n21 path=cluster.yaml\n'), cluster)),
    /more than a path/,
  ],
  ['a size in an extended header', () => pack(join2(extended('10 size=9\n'), cluster)), /more than a path/],
  ['an extended header for nobody', () => pack(extended('21 path=cluster.yaml\n')), /no regular file/],
  [
    'one extended header behind another',
    () => pack(join2(extended('15 path=../../x\n'), extended('15 path=../../x\n'))),
    /behind another/,
  ],
  ['an extended header of a megabyte', () => pack(extended(`9 path=${'x'.repeat(1 << 20)}\n`)), /too long/],
  ['one path twice', () => pack(join2(cluster, cluster)), /not in order, or is there twice/],
  ['paths out of order', () => pack(join2(cluster, entry('0', 'SHA256SUMS', 'x'))), /not in order/],
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
    /it is cut/,
  ],
  [
    'a mode that lets others write',
    () => pack(entry('0', 'cluster.yaml', 'x', (h) => void h.write('0000666\0', 100))),
    /not as `sluice pack`/,
  ],
  [
    'a set-user-id mode',
    () => pack(entry('0', 'cluster.yaml', 'x', (h) => void h.write('0004755\0', 100))),
    /not as `sluice pack`/,
  ],
  ['an owner', () => pack(entry('0', 'cluster.yaml', 'x', (h) => void h.write('root', 265))), /not as `sluice pack`/],
  [
    'a time',
    () => pack(entry('0', 'cluster.yaml', 'x', (h) => void h.write('14000000000\0', 136))),
    /not as `sluice pack`/,
  ],
  ['something behind the name', () => pack(entry('0', 'cluster.yaml\0x', 'x')), /not as `sluice pack`/],
  [
    'something in the padding',
    () => pack(entry('0', 'cluster.yaml', 'x', (h) => void h.write('y', 600))),
    /not as `sluice pack`/,
  ],
  ['a checksum that is wrong', () => pack(Buffer.from(cluster).fill('1', 148, 149)), /not as `sluice pack`/],
  [
    'something behind the end',
    () => pack(Buffer.concat([printTar(good), Buffer.alloc(512)])),
    /goes on behind its end/,
  ],
  ['a tar that is cut in a file', () => pack(printTar(good).subarray(0, 2000)), /it is cut/],
  ['a tar without an end', () => pack(printTar(good).subarray(0, -1024)), /it is cut/],
  ['a tar with half an end', () => pack(printTar(good).subarray(0, -512)), /cut|regular/],
  ['an archive that is cut', () => printArchive({ files }).subarray(0, -5), /it is cut/],
  ['an archive with a flipped bit', () => flipped(printArchive({ files })), /no zstd archive/],
  ['something behind the archive', () => Buffer.concat([printArchive({ files }), Buffer.from('x')]), /behind its end/],
  ['nothing', () => Buffer.alloc(0), /it is cut/],
  ['something else', () => Buffer.from('PK\x03\x04 a zip, perhaps'), /no zstd archive/],
  ['64 MiB of zeros in a few kilobytes', () => zeros, /would become more than/],
  [
    'bytes that are no text',
    () => pack(printTar(new Map([['cluster.yaml', Buffer.from([0xc3, 0x28])]]))),
    /is not UTF-8/,
  ],
  ['a base without a digest', () => pack(printTar(new Map([['.sluice-base', Buffer.from('x\n')]]))), /holds no digest/],
];

const flipped = (bytes: Uint8Array): Uint8Array => Buffer.from(bytes).fill((bytes.at(-1) ?? 0) ^ 1, bytes.length - 1);

describe('a hostile archive is refused with words:', () => {
  test.each(hostile)('%s', (_title, packed, says) => {
    expect(readArchive('a', packed())).toMatchObject({ code: 'ARCHIVE_INVALID', message: expect.stringMatching(says) });
  });

  test('more bytes than a bundle may have, in files that are each small enough', () => {
    const step = 512 + bundleLimits.fileBytesMax;
    // Its pages are never touched but for the headers.
    const tar = Buffer.alloc(65 * step + 1024);
    const octal = `${bundleLimits.fileBytesMax.toString(8).padStart(11, '0')}\0`;
    for (let n = 0; n < 65; n++)
      tar.set(entry('0', `nodes/n${100 + n}/node.yaml`, '', size(octal)).subarray(0, 512), n * step);
    expect(readTar(tar, () => true)).toContain('its files have more than');
  });

  test('more packed bytes than an archive may have are not even looked at', () => {
    const none = Buffer.alloc(archiveLimits.archiveBytesMax + 1);
    expect(readArchive('a', none)).toMatchObject({ message: expect.stringContaining('is larger than') });
  });

  test('whatever is changed in a tar: it is refused, or reads as what its bytes would be written from', () => {
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
