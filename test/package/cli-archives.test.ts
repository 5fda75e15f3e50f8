// @module-tag all
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { execaSync } from 'execa';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { need } from '../deploy/programs.ts';
import { url, version } from './setup.ts';
import { artefact, packages, scratch } from './unpack.fixture.ts';

/** Archives of `sluice` alone, and what krew and Homebrew read of them. */

const example = join(import.meta.dirname, '../../examples/01-cluster-ip');
const platforms = ['linux-x64', 'darwin-x64', 'linux-arm64', 'darwin-arm64'] as const;
const archiveOf = (platform: string): string => artefact(`-${platform}.tar.gz`);
const folderOf = (platform: string): string => basename(archiveOf(platform), '.tar.gz');
const shared = [
  'integrations/github/action.yml',
  'integrations/github/comment.sh',
  'integrations/github/sarif.sh',
  'integrations/gitlab/comment.sh',
  'integrations/gitlab/sluice.gitlab-ci.yml',
  'integrations/kubectl-diff',
  'integrations/kustomize/sluice-krm',
  'integrations/review.sh',
  'share/bash-completion/completions/sluice',
  'share/doc/sluice/THIRD-PARTY-LICENSES',
  'share/doc/sluice/copyright',
  'share/fish/vendor_completions.d/sluice.fish',
  'share/man/man1/sluice.1.gz',
  'share/zsh/site-functions/_sluice',
];

/** Unpacks an archive, and returns the one folder in it. */
function unpack(platform: string): string {
  const folder = scratch();
  execaSync('tar', ['-xzf', archiveOf(platform), '-C', folder]);
  const names = readdirSync(folder);
  expect(names).toEqual([folderOf(platform)]);
  return join(folder, ...names);
}

/** A link far from the program, as package managers make it: one that leads to another one. */
function linkTo(program: string): string {
  const folder = join(scratch(), 'opt/bin');
  mkdirSync(folder, { recursive: true });
  symlinkSync(program, join(folder, '../sluice'));
  symlinkSync('../sluice', join(folder, 'kubectl-sluice'));
  return join(folder, 'kubectl-sluice');
}

test.for(platforms)('%s: the archive has the program, its page and completions, and is small', (platform, context) => {
  if (packages.whyNot) return context.skip(packages.whyNot);
  const folder = unpack(platform);
  const files = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => !entry.isDirectory())
    .map((entry) => join(entry.parentPath, entry.name).slice(folder.length + 1));
  const own = platform.startsWith('linux')
    ? ['lib/sluice/libatomic.so.1']
    : ['lib/sluice/node', 'lib/sluice/sluice.mjs'];
  expect(new Set(files)).toEqual(new Set(['bin/sluice', ...own, ...shared]));
  expect(statSync(archiveOf(platform)).size / 1e6).toBeLessThan(50);
});

const run = (program: string, argv: readonly string[]) =>
  execaSync(program, argv, {
    env: { PATH: '/usr/bin:/bin', NODE_OPTIONS: '--require=/nowhere.cjs' },
    extendEnv: false,
  });

/** What differs between an example's golden files and what a program renders of it. */
function changesInExample(program: string): string {
  const out = join(scratch(), 'out');
  run(program, ['render', '-f', join(example, 'in'), '-o', out]);
  const argv = ['-r', '-x', '.sluice-complete', join(example, 'out'), out];
  return execaSync('diff', argv, { reject: false, all: true }).all;
}

test('linux: the program starts by links, without Node, and renders an example', (context) => {
  if (packages.whyNot) return context.skip(packages.whyNot);
  const program = linkTo(join(unpack('linux-x64'), 'bin/sluice'));
  expect(run(program, ['--version']).stdout).toBe(version);
  expect(changesInExample(program)).toBe('');
});

describe.each([
  ['darwin-x64', 0x01000007],
  ['darwin-arm64', 0x0100000c],
] as const)('%s', (platform, processor) => {
  test('Node is an executable for this processor, with the signature of its publisher', (context) => {
    if (packages.whyNot) return context.skip(packages.whyNot);
    const node = readFileSync(join(unpack(platform), 'lib/sluice/node'));
    const [magic, type] = [node.readUInt32LE(0), node.readUInt32LE(12)];
    expect([magic, node.readUInt32LE(4), type]).toEqual([0xfeedfacf, processor, 2]);
    const signature = signatureOf(node);
    // The signature ends the file: nothing was added to it.
    expect(signature.end).toBe(node.length);
    expect(signature.bytes.readUInt32BE(0)).toBe(0xfade0cc0);
    expect(signature.bytes.includes('Developer ID Application: Node.js Foundation')).toBe(true);
    expect(signature.pages).not.toEqual([]);
    expect(signature.pages.filter(({ actual, signed }) => actual !== signed)).toEqual([]);
  });

  test('its script starts the Node beside it by links, and renders an example', (context) => {
    if (packages.whyNot) return context.skip(packages.whyNot);
    const folder = unpack(platform);
    // In the place of the Node for macOS, which does not run here.
    copyFileSync(realpathSync(process.execPath), join(folder, 'lib/sluice/node'));
    const program = linkTo(join(folder, 'bin/sluice'));
    expect(run(program, ['--version']).stdout).toBe(version);
    expect(changesInExample(program)).toBe('');
  });
});

/** The code signature of a Mach-O file, with the digest of each page that it covers. */
function signatureOf(file: Buffer) {
  const commands = file.readUInt32LE(16);
  let at = 32;
  for (let index = 0; index < commands && file.readUInt32LE(at) !== 0x1d; index++) at += file.readUInt32LE(at + 4);
  const [offset, size] = [file.readUInt32LE(at + 8), file.readUInt32LE(at + 12)];
  const bytes = file.subarray(offset, offset + size);
  // The index of a superblob: a count, then types and offsets. Type 0 is the directory of pages.
  const entries = Array.from({ length: bytes.readUInt32BE(8) }, (_none, index) => 12 + index * 8);
  const directory = bytes.subarray(bytes.readUInt32BE((entries.find((one) => bytes.readUInt32BE(one) === 0) ?? 0) + 4));
  const [hashes, count, limit] = [16, 28, 32].map((one) => directory.readUInt32BE(one)) as [number, number, number];
  const pageSize = 2 ** directory.readUInt8(39);
  const pages = Array.from({ length: count }, (_none, index) => ({
    signed: directory.subarray(hashes + index * 32, hashes + (index + 1) * 32).toString('hex'),
    actual: createHash('sha256')
      .update(file.subarray(index * pageSize, Math.min((index + 1) * pageSize, limit)))
      .digest('hex'),
  }));
  return { bytes, end: offset + size, pages };
}

const sha256Of = (path: string): string => createHash('sha256').update(readFileSync(path)).digest('hex');
const addressOf = (platform: string): string => `${url}${encodeURIComponent(basename(archiveOf(platform)))}`;

test('the manifest of krew has the form that krew asks for, and names the archives', (context) => {
  if (packages.whyNot) return context.skip(packages.whyNot);
  const manifest = parse(readFileSync(join(packages.folder, 'krew/sluice.yaml'), 'utf8')) as {
    readonly spec: { readonly platforms: readonly { readonly bin: string }[] };
  };
  const architecture = { x64: 'amd64', arm64: 'arm64' } as const;
  expect(manifest).toEqual({
    apiVersion: 'krew.googlecontainertools.github.com/v1alpha2',
    kind: 'Plugin',
    metadata: { name: 'sluice' },
    spec: {
      version: `v${version}`,
      homepage: expect.stringMatching(/^https:/) as string,
      shortDescription: expect.stringMatching(/^.{10,50}$/) as string,
      description: expect.any(String) as string,
      platforms: platforms.map((platform) => {
        const [os, arch] = platform.split('-') as [string, keyof typeof architecture];
        return {
          selector: { matchLabels: { os, arch: architecture[arch] } },
          uri: addressOf(platform),
          sha256: sha256Of(archiveOf(platform)),
          bin: `${folderOf(platform)}/bin/sluice`,
        };
      }),
    },
  });
});

test('krew installs each archive by the manifest, and refuses another one', { timeout: 600_000 }, async (context) => {
  if (packages.whyNot) return context.skip(packages.whyNot);
  const krew = await need(context, 'krew');
  const home = scratch();
  const manifest = join(packages.folder, 'krew/sluice.yaml');
  const install = (platform: string, archive: string) => {
    const [os = '', arch = ''] = platform.replace('x64', 'amd64').split('-');
    const env = { PATH: '/usr/bin:/bin', HOME: home, KREW_ROOT: join(home, platform), KREW_OS: os, KREW_ARCH: arch };
    const argv = ['install', '--manifest', manifest, '--archive', archiveOf(archive)];
    return execaSync(krew, argv, { env, extendEnv: false, reject: false, all: true });
  };
  const refused = install('linux-arm64', 'linux-x64');
  expect(refused.exitCode).not.toBe(0);
  expect(refused.all).toContain('checksum does not match');
  for (const platform of platforms) {
    const { exitCode, all } = install(platform, platform);
    expect({ exitCode, all }).toMatchObject({ exitCode: 0 });
    const program = realpathSync(join(home, platform, 'bin/kubectl-sluice'));
    expect(program).toBe(join(home, platform, 'store/sluice', `v${version}`, folderOf(platform), 'bin/sluice'));
  }
  expect(run(join(home, 'linux-x64/bin/kubectl-sluice'), ['--version']).stdout).toBe(version);
});

test('the formula of Homebrew names the archives, and is Ruby', (context) => {
  if (packages.whyNot) return context.skip(packages.whyNot);
  const file = join(packages.folder, 'homebrew/sluice.rb');
  const text = readFileSync(file, 'utf8');
  const block = /on_(linux|macos) do\n([^]*?)^ {2}end$/gm;
  const source = /on_(arm|intel) do\n +url "(.+)"\n +sha256 "(.+)"\n +end/g;
  const found = [...text.matchAll(block)].flatMap(([, system = '', body = '']) =>
    [...body.matchAll(source)].map(([, processor = '', address, digest]) => [
      `${system} ${processor}`,
      address,
      digest,
    ]),
  );
  const names = {
    'linux-x64': 'linux intel',
    'darwin-x64': 'macos intel',
    'linux-arm64': 'linux arm',
    'darwin-arm64': 'macos arm',
  } as const;
  const expected = platforms.map((one) => [names[one], addressOf(one), sha256Of(archiveOf(one))]);
  expect(new Set(found)).toEqual(new Set(expected));
  expect(text).toContain(`  version "${version}"\n`);
  if (!existsSync('/usr/bin/ruby')) return context.skip('the formula is not parsed: apt-get install ruby');
  expect(execaSync('ruby', ['-c', file]).stdout).toBe('Syntax OK');
});

test.for([
  [['--url', 'downloads'], 'Cannot use downloads as the address of a release'],
  [['--url', url, '--no-cli'], 'Cannot name archives that are not built'],
] as const)('./dev package %s is refused', ([argv, message]) => {
  const program = join(import.meta.dirname, '../../tools/package.ts');
  const refused = execaSync(process.execPath, [program, ...argv, '-o', join(scratch(), 'out')], { reject: false });
  expect(refused).toMatchObject({ exitCode: 2, stderr: expect.stringContaining(message) as string });
});
