import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { loadLimits } from './parse/limits.ts';
import { readSources } from './sources.ts';

let root = '';

beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'sluice-sources-'));
  for (const folder of ['d', 'd/sub', 'd/empty.yaml', 'mount', 'mount/..2026']) mkdirSync(join(root, folder));
  for (const file of [
    'd/b.yaml',
    'd/Z.yml',
    'd/a.json',
    'd/notes.txt',
    'd/sub/c.yaml',
    'x.conf',
    'mount/..2026/s.yaml',
  ]) {
    writeFileSync(join(root, file), `# ${file}\n`);
  }
  symlinkSync('.', join(root, 'd/sub/loop'));
  symlinkSync('../x.conf', join(root, 'd/link.yaml'));
  symlinkSync('..2026', join(root, 'mount/..data'));
  symlinkSync('..data/s.yaml', join(root, 'mount/s.yaml'));
  symlinkSync('nowhere', join(root, 'dangling.yaml'));
  symlinkSync('round.yaml', join(root, 'round.yaml'));
});
afterAll(() => rmSync(root, { recursive: true }));

async function* bytes(...chunks: Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks;
}

/** Paths of the sources below the root, and `CODE message` of each problem. */
async function read(inputs: string[], recursive = false, stdin = bytes()) {
  const { sources, problems } = await readSources(
    inputs.map((input) => (input === '-' ? input : join(root, input))),
    { recursive, stdin },
  );
  return {
    files: sources.map(({ file }) => file.replace(`${root}/`, '')),
    problems: problems.map(({ code, message }) => `${code} ${message.replace(`${root}/`, '')}`),
  };
}

test.each<[string, string[], boolean, string[]]>([
  ['a file with any name', ['x.conf'], false, ['x.conf']],
  ['the manifests of a directory, in byte order', ['d'], false, ['d/Z.yml', 'd/a.json', 'd/b.yaml', 'd/link.yaml']],
  [
    'subdirectories with -R, without a loop',
    ['d'],
    true,
    ['d/Z.yml', 'd/a.json', 'd/b.yaml', 'd/link.yaml', 'd/sub/c.yaml'],
  ],
  [
    'several inputs, each file once',
    ['d/b.yaml', 'd', 'd/b.yaml'],
    false,
    ['d/Z.yml', 'd/a.json', 'd/b.yaml', 'd/link.yaml'],
  ],
  ['a mounted ConfigMap, each file once', ['mount'], true, ['mount/..2026/s.yaml']],
  ['a mounted ConfigMap without -R', ['mount'], false, ['mount/s.yaml']],
])('reads %s', async (_title, inputs, recursive, files) => {
  expect(await read(inputs, recursive)).toEqual({ files, problems: [] });
});

test.each([
  ['a missing file', 'missing.yaml', 'INPUT_UNREADABLE Cannot read missing.yaml: no such file or directory'],
  ['a link to nothing', 'dangling.yaml', 'INPUT_UNREADABLE Cannot read dangling.yaml: no such file or directory'],
  ['a link to itself', 'round.yaml', 'INPUT_UNREADABLE Cannot read round.yaml: too many levels of symbolic links'],
])('reports %s and reads the others', async (_title, input, problem) => {
  expect(await read([input, 'x.conf'])).toEqual({ files: ['x.conf'], problems: [problem] });
});

test('reads stdin once, in any number of chunks', async () => {
  const stdin = bytes(Buffer.from('a: \u00e9').subarray(0, 4), Buffer.from('a: \u00e9').subarray(4));
  const { sources } = await readSources(['-', '-'], { recursive: false, stdin });
  expect(sources).toEqual([{ file: 'stdin', text: 'a: \u00e9' }]);
});

test('refuses an endless stream at the limit', async () => {
  async function* endless(): AsyncGenerator<Uint8Array> {
    for (;;) yield new Uint8Array(8 * 1024 * 1024);
  }
  const { problems } = await read(['-'], false, endless());
  expect(problems).toEqual([`INPUT_TOO_LARGE Cannot read stdin: it is larger than ${loadLimits.fileBytesMax} bytes`]);
});

test.each([
  ['UTF-8 with its mark', Buffer.from('\ufeffa: 1'), 'a: 1'],
  ['UTF-16, as PowerShell writes it', Buffer.from('\ufeffa: 1', 'utf16le'), 'a: 1'],
  ['UTF-16, big-endian', Buffer.from('\ufeffa: 1', 'utf16le').swap16(), 'a: 1'],
])('decodes %s', async (_title, content, text) => {
  const { sources } = await readSources(['-'], { recursive: false, stdin: bytes(content) });
  expect(sources.map((source) => source.text)).toEqual([text]);
});

test('reports the line of bytes that are not UTF-8', async () => {
  const { problems } = await readSources(['-'], {
    recursive: false,
    stdin: bytes(Buffer.from('a: 1\nb: \xe9\n', 'latin1')),
  });
  expect(problems.map(({ code, at }) => [code, at?.line])).toEqual([['YAML_SYNTAX', 2]]);
});
