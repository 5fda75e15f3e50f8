import { fileDigest, ResolveCache, resolveSections, SourceFiles } from '@sluice/bundle';
import fc from 'fast-check';
import { expect, test, vi } from 'vitest';
import { limits } from '../limits.ts';
import { sampleBundle } from '../testing/bundle.fixture.ts';
import { PackedText, packSome, packWhenIdle } from './packed.ts';

const read = (text: string): PackedText => new PackedText(Buffer.from(text), fileDigest(text));
const packAll = (): void => {
  while (packSome());
};

function packed(text: string): PackedText {
  const source = read(text);
  packAll();
  return source;
}
const packedFiles = (files: ReadonlyMap<string, string>): SourceFiles =>
  new SourceFiles(new Map([...files].map(([path, text]) => [path, packed(text)])));

test('returns a text byte for byte', () => {
  fc.assert(fc.property(fc.string({ unit: 'grapheme', maxLength: 500 }), (text) => packed(text).text === text));
  expect(packed('').text).toBe('');
  const large = 'é'.repeat(limits.packedBytesMax);
  expect(packed(large).text === large).toBe(true);
});

test('returns texts that were packed together, also empty ones', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'grapheme', maxLength: 200 }), { maxLength: 300 }), (texts) => {
      const sources = texts.map(read);
      packAll();
      expect(sources.map(({ text }) => text)).toEqual(texts);
    }),
  );
});

test('texts are packed when nothing else is to be done, a few at a time, and stay the same', () => {
  vi.useFakeTimers();
  try {
    const pack = vi.spyOn(PackedText, 'pack');
    const packedTexts = (): number => pack.mock.calls.reduce((sum, [texts]) => sum + texts.length, 0);
    const text = (at: number): string => `text ${at}\n`.repeat(200);
    const texts = Array.from({ length: 500 }, (_, at) => read(text(at)));
    expect(pack).not.toHaveBeenCalled();
    packWhenIdle();
    packWhenIdle();
    vi.advanceTimersByTime(limits.packPauseMs);
    expect(packedTexts()).toBeGreaterThan(limits.packedAtOnceBytes / text(499).length);
    expect(packedTexts()).toBeLessThan(texts.length);
    vi.advanceTimersByTime(limits.packPauseMs);
    expect(packedTexts()).toBe(texts.length);
    expect(pack.mock.calls.length).toBeLessThan(texts.length / 10);
    expect(texts.map((one) => one.text)).toEqual(texts.map((_, at) => text(at)));
    expect(texts.toReversed().map((one) => one.text)).toEqual(texts.map((_, at) => text(at)).toReversed());
    expect(vi.getTimerCount()).toBe(0);
  } finally {
    vi.restoreAllMocks();
    vi.useRealTimers();
  }
});

test('texts beyond a bound are packed at once', () => {
  const pack = vi.spyOn(PackedText, 'pack');
  const length = limits.packedBytesMax;
  const texts = Array.from({ length: limits.unpackedBytesMax / length + 1 }, () => read('x'.repeat(length)));
  expect(pack).toHaveBeenCalledTimes(1);
  packAll();
  expect(pack).toHaveBeenCalledTimes(texts.length);
  pack.mockRestore();
});

test('packed files are read like a map of their texts', () => {
  const files = new Map([
    ['a', 'one\n'],
    ['b', 'two\n'],
  ]);
  const same = packedFiles(files);
  const told: unknown[] = [];
  same.forEach((text, path) => told.push([path, text]));
  expect([[...same], [...same.entries()], told]).toEqual([[...files], [...files], [...files]]);
  expect([[...same.keys()], [...same.values()]]).toEqual([[...files.keys()], [...files.values()]]);
  expect([same.size, same.has('a'), same.has('c'), same.get('b'), same.get('c')]).toEqual([
    2,
    true,
    false,
    'two\n',
    undefined,
  ]);
});

test('a node resolves to the same from packed files', () => {
  const files = sampleBundle({ families: ['ipv4', 'ipv6'] });
  const cache = new ResolveCache();
  const of = (from: ReadonlyMap<string, string>, by = new ResolveCache()) => {
    const resolved = resolveSections(from, 'node-a', by);
    if (!('version' in resolved)) throw new Error(JSON.stringify(resolved));
    return resolved;
  };
  const told = ({ version, sections }: ReturnType<typeof of>): unknown => [
    version,
    [...sections].map(([family, list]) => [
      family,
      list.map((file) => file.map(({ table, chains, rules }) => ({ table, chains, rules }))),
    ]),
  ];
  const plain = of(files);
  const first = of(packedFiles(files), cache);
  expect(told(first)).toEqual(told(plain));
  const again = of(packedFiles(files), cache);
  expect(again.sections.get('ipv4')?.every((file, at) => file === first.sections.get('ipv4')?.[at])).toBe(true);
});
