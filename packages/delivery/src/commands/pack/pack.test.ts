import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  cpSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Archive,
  fileDigest,
  isProblem,
  layOver,
  makeRelease,
  printRelease,
  readArchive,
  readRelease,
  sumsMisfit,
  sumsOf,
} from '@sluice/bundle';
import { programPath } from '@sluice/testing';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { writeRelease } from '../../emit/release.ts';
import { readTree } from '@sluice/renderer/load/tree.ts';
import { sluice } from '../../../../sluice/src/in-process.fixture.ts';

const root = join(import.meta.dirname, '../../../../..');
const example = join(root, 'examples/11-mixed/out');
const scratch = mkdtempSync(join(tmpdir(), 'sluice-pack-'));
const at = (name: string): string => join(scratch, name);
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const bundle = readTree(example);
if (isProblem(bundle)) throw new Error(bundle.message);
const nodes = readdirSync(join(example, 'nodes'));
const profileOf = (node: string): string =>
  /^profile: (.*)$/m.exec(bundle.get(`nodes/${node}/node.yaml`) as string)?.[1] as string;
const [first, other] = [nodes[0], nodes.find((node) => profileOf(node) !== profileOf(nodes[0] as string))] as [
  string,
  string,
];

/** A release with a fake signature: pack does not verify signatures. */
function release(name: string, serial: number, files: ReadonlyMap<string, string>): void {
  const made = makeRelease(files, { serial, source: 'c'.repeat(40) });
  if (!('serial' in made)) throw new Error(JSON.stringify(made));
  const text = printRelease(made);
  writeRelease(at(name), files, { release: text, sums: sumsOf(files, text), waves: undefined });
  writeFileSync(at(`${name}/SHA256SUMS.sig`), `signature ${serial}\n`);
}

beforeEach(() => {
  rmSync(scratch, { recursive: true, force: true });
  release('old', 1, bundle);
  const changed = new Map(bundle);
  const path = [...bundle.keys()].find((one) => one.startsWith(`profiles/${profileOf(first)}/services/`)) as string;
  changed.set(path, `# changed\n${bundle.get(path)}`);
  release('new', 2, changed);
});

const pack = (...args: readonly string[]) => packTo(at('a.tar.zst'), ...args);
const packTo = (output: string, ...args: readonly string[]) => sluice('pack', ...args, '-o', output);

function packed(): Archive {
  const archive = readArchive('a', readFileSync(at('a.tar.zst')));
  if (isProblem(archive)) throw new Error(archive.message);
  return archive;
}
const misfitOf = (files: ReadonlyMap<string, string>): string | undefined =>
  sumsMisfit(files.get('SHA256SUMS') as string, new Map([...files].map(([path, text]) => [path, fileDigest(text)])));

describe('sluice pack', () => {
  test('prints the digest of the file, the same for the same release in another directory', async () => {
    const { status, stdout } = await pack(at('new'), '--all');
    expect(status).toBe(0);
    const bytes = readFileSync(at('a.tar.zst'));
    expect(stdout).toBe(`sha256:${fileDigest(bytes)}\n`);
    cpSync(at('new'), at('copy'), { recursive: true });
    await pack(at('copy'), '--all');
    expect(readFileSync(at('a.tar.zst'))).toEqual(bytes);
    expect(readdirSync(scratch).toSorted()).toEqual(['a.tar.zst', 'copy', 'new', 'old']);
  });

  test('writes to a pipe and through a link without replacing them', async () => {
    await pack(at('new'), '--all');
    const bytes = readFileSync(at('a.tar.zst'));
    execFileSync('mkfifo', [at('pipe')]);
    const reader = spawn('cat', [at('pipe')]);
    const read = new Promise<Buffer>((done) => {
      const parts: Buffer[] = [];
      reader.stdout.on('data', (part: Buffer) => parts.push(part)).on('end', () => done(Buffer.concat(parts)));
    });
    try {
      expect(await packTo(at('pipe'), at('new'), '--all')).toMatchObject({ status: 0 });
      expect(lstatSync(at('pipe')).isFIFO()).toBe(true);
      expect(await read).toEqual(bytes);
    } finally {
      reader.kill();
    }
    symlinkSync('led-to', at('link'));
    await packTo(at('link'), at('new'), '--all');
    expect(readlinkSync(at('link'))).toBe('led-to');
    expect(readFileSync(at('led-to'))).toEqual(bytes);
  });

  describe('into standard output', () => {
    const started = [process.execPath, programPath('sluice')];
    /** @param command with the packer as its arguments */
    const shell = (command: string, output: string) =>
      spawnSync('bash', ['-c', command, 'sh', ...started, 'pack', at('new'), '--all', '-o', output], {
        encoding: 'utf8',
        cwd: scratch,
      });
    beforeEach(() => {
      // More than a pipe holds, and nothing makes it smaller.
      const note = `# ${randomBytes(200_000).toString('base64')}\n`;
      release('new', 2, new Map([...bundle, ['cluster.yaml', `${bundle.get('cluster.yaml')}${note}`]]));
    });

    test.each(['-', '/dev/stdout'])('%s: fails for a truncated archive', (output) => {
      const full = shell(`trap '' XFSZ; ulimit -f 64; "$@" > cut`, output);
      expect(full).toMatchObject({ status: 2, stderr: expect.stringContaining('[OUTPUT_UNWRITABLE]') });
      expect(full.stderr).not.toContain('sha256:');
      const gone = shell(`"$@" | true; exit \${PIPESTATUS[0]}`, output);
      expect(gone).toMatchObject({ status: 2, stderr: expect.stringContaining('[OUTPUT_UNWRITABLE]') });
    });

    test.each(['-', '/dev/stdout'])('%s: writes everything to a slow reader', (output) => {
      expect(shell('"$@" | (sleep 2; cat) > slow', output)).toMatchObject({
        status: 0,
        stderr: expect.stringContaining('sha256:'),
      });
      expect(isProblem(readArchive('a', readFileSync(at('slow'))))).toBe(false);
    });

    test.each(['-', '/dev/stdout'])('%s: appends to a file', (output) => {
      writeFileSync(at('log'), 'before\n');
      expect(shell('"$@" >> log', output).status).toBe(0);
      expect(readFileSync(at('log'), 'latin1')).toMatch(/^before\n./);
    });
  });

  test('--all packs every file of the release', async () => {
    await pack(at('new'), '--all');
    const { files } = packed();
    const there = readdirSync(at('new'), { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    expect([...files.keys()].toSorted()).toEqual(
      there.map((entry) => join(entry.parentPath, entry.name).slice(at('new/').length)).toSorted(),
    );
    for (const [path, text] of files) expect(text).toBe(readFileSync(at(`new/${path}`), 'utf8'));
  });

  test('--node packs the node, its profile and the shared files, which match SHA256SUMS', async () => {
    await pack(at('new'), '--node', first);
    const { files } = packed();
    expect(misfitOf(files)).toBeUndefined();
    expect([...files.keys()].filter((path) => path.startsWith('nodes/'))).toEqual([`nodes/${first}/node.yaml`]);
    expect([...files.keys()].filter((path) => path.startsWith(`profiles/${profileOf(other)}/`))).toEqual([]);
    expect(files.get('SHA256SUMS.sig')).toBe('signature 2\n');
    expect(isProblem(readRelease(files.get('release.yaml') as string))).toBe(false);
  });

  test('--base packs only differences, which applied to the base give the release', async () => {
    await pack(at('new'), '--node', first);
    const whole = packed().files;
    await pack(at('old'), '--node', first);
    const old = packed().files;
    const { stderr } = await pack(at('new'), '--node', first, '--base', at('old'));
    expect(stderr).toContain('changes to release 2');
    const archive = packed();
    expect([...archive.files.keys()].filter((path) => path.startsWith('profiles/'))).toHaveLength(1);
    expect(layOver(archive, old)).toEqual(whole);
    expect(layOver(archive, undefined)).toMatchObject({ code: 'ARCHIVE_BASE' });
    expect(layOver(archive, whole), 'on the release itself').toEqual(whole);
    release('third', 3, bundle);
    await pack(at('third'), '--node', first);
    expect(layOver(archive, packed().files)).toMatchObject({ code: 'ARCHIVE_BASE' });
  });

  test('--base applies changes for one node to a base with all nodes, without stale profiles', async () => {
    await pack(at('old'), '--all');
    const base = packed().files;
    await pack(at('new'), '--node', other, '--base', at('old'));
    const laid = layOver(packed(), base) as ReadonlyMap<string, string>;
    expect(misfitOf(laid)).toBeUndefined();
    expect(laid.has(`profiles/${profileOf(other)}/profile.yaml`)).toBe(true);
    expect(laid.has(`profiles/${profileOf(first)}/profile.yaml`)).toBe(false);
  });

  test('--base includes a profile that the node did not have before', async () => {
    const path = `nodes/${first}/node.yaml`;
    const [from, to] = [profileOf(first), profileOf(other)];
    const text = (bundle.get(path) as string).replace(`profile: ${from}\n`, `profile: ${to}\n`);
    release('moved', 2, new Map([...bundle, [path, text]]));
    await pack(at('moved'), '--node', first);
    const whole = packed().files;
    await pack(at('old'), '--node', first);
    const old = packed().files;
    await pack(at('moved'), '--node', first, '--base', at('old'));
    const archive = packed();
    expect(archive.files.has('cluster.yaml'), 'files that the node has are left out').toBe(false);
    const laid = layOver(archive, old) as ReadonlyMap<string, string>;
    expect(misfitOf(laid)).toBeUndefined();
    expect(laid.has(`profiles/${to}/profile.yaml`)).toBe(true);
    for (const [name, part] of whole) expect(laid.get(name)).toBe(part);
  });

  test('--base packs the whole release for a node that is not in the base', async () => {
    release('small', 1, new Map([...bundle].filter(([path]) => !path.startsWith(`nodes/${first}/`))));
    await pack(at('new'), '--node', first);
    const whole = packed().files;
    const { status, stderr } = await pack(at('new'), '--node', first, '--base', at('small'));
    expect(status).toBe(0);
    expect(stderr).toContain(': release 2 of ');
    expect(packed()).toEqual({ files: whole });
  });

  test('packs an unsigned release with a warning', async () => {
    rmSync(at('new/SHA256SUMS.sig'));
    expect(await pack(at('new'), '--all')).toMatchObject({
      status: 0,
      stderr: expect.stringContaining('[RELEASE_UNSIGNED]'),
    });
  });

  test.each([
    ['a directory that is not a release', () => [example, '--all'], 'RELEASE_INVALID'],
    ['a directory that is not there', () => [at('none'), '--all'], 'as a release: no such directory'],
    ['neither a node nor all', () => [at('new')], 'INPUT_EMPTY'],
    ['a node that the release does not have', () => [at('new'), '--node', 'nobody'], 'BUNDLE_UNKNOWN_NODE'],
    ['a node with a name that every object has', () => [at('new'), '--node', 'constructor'], 'BUNDLE_UNKNOWN_NODE'],
    ['a missing base', () => [at('new'), '--all', '--base', at('none')], 'SHA256SUMS is missing'],
    [
      'a base with a pipe for SHA256SUMS',
      () => {
        rmSync(at('old/SHA256SUMS'));
        execFileSync('mkfifo', [at('old/SHA256SUMS')]);
        return [at('new'), '--all', '--base', at('old')];
      },
      'it is not a regular file',
    ],
    [
      'a base with another release.yaml',
      () => (writeFileSync(at('old/release.yaml'), 'x\n'), [at('new'), '--node', first, '--base', at('old')]),
      'the digest of release.yaml does not match SHA256SUMS',
    ],
    ['a file that was changed', () => (writeFileSync(at('new/cluster.yaml'), 'x\n'), [at('new'), '--all']), 'digest'],
  ] as const)('refuses %s and leaves no archive', async (_title, args, says) => {
    const { status, stderr } = await pack(...args());
    expect(status).toBe(2);
    expect(stderr).toContain(says);
    expect(readdirSync(scratch).toSorted()).toEqual(['new', 'old']);
  });
});
