// @module-tag all
import { existsSync, lstatSync, readdirSync, readlinkSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { execaSync } from 'execa';
import { describe, expect, test } from 'vitest';
import { artefact, packages, scratch, unpackDeb } from './unpack.fixture.ts';
import { version } from './setup.ts';

const example = join(import.meta.dirname, '../../examples/01-cluster-ip');
const qemu = '/usr/bin/qemu-aarch64-static';
const armLibraries = '/usr/aarch64-linux-gnu';
const noArm =
  existsSync(qemu) && existsSync(`${armLibraries}/lib/libstdc++.so.6`)
    ? ''
    : `${qemu} or the libraries of arm64 are missing: apt-get install qemu-user-static libstdc++6-arm64-cross`;

/** No Node on PATH, and no option of Node. */
const environment = { PATH: '/usr/bin:/bin', NODE_OPTIONS: '--require=/nowhere.cjs' };

describe.each([
  ['amd64', 'x64', packages.whyNot, []],
  ['arm64', 'arm64', packages.whyNot || noArm, [qemu, '-L', armLibraries]],
] as const)('the executables for %s', (arch, nodeArch, whyNot, emulator) => {
  const start = (root: string, program: string, argv: readonly string[]) => {
    const path = join(root, 'usr/bin', program);
    const [file, ...rest] = [...emulator, path, ...argv] as [string, ...string[]];
    return execaSync(file, rest, { env: environment, extendEnv: false, reject: false });
  };

  test('print their version, and nothing else', (context) => {
    if (whyNot) return context.skip(whyNot);
    const root = unpackDeb(arch);
    // The first two are answered before the program is compiled, the third by the program.
    for (const program of ['sluice', 'sluiced'])
      for (const words of [['--version'], ['-V'], ['--color', 'never', '--version']]) {
        const { stdout, stderr, exitCode } = start(root, program, words);
        expect({ words, stdout, stderr, exitCode }).toEqual({ words, stdout: version, stderr: '', exitCode: 0 });
      }
    const output = JSON.parse(start(root, 'sluiced', ['version', '-o', 'json']).stdout) as object;
    expect(output).toMatchObject({ version, platform: 'linux', arch: nodeArch });
  });

  test('name a full disk when they are asked for their version', (context) => {
    if (whyNot) return context.skip(whyNot);
    const program = join(unpackDeb(arch), 'usr/bin/sluice');
    const full = execaSync('sh', ['-c', '"$@" --version >/dev/full', 'sh', ...emulator, program], { reject: false });
    expect(full.exitCode).toBe(2);
    expect(full.stderr).toContain('[OUTPUT_UNWRITABLE]');
  });

  test('are one file with two names, and another name is sluice', (context) => {
    if (whyNot) return context.skip(whyNot);
    const root = unpackDeb(arch);
    expect(readlinkSync(join(root, 'usr/bin/sluiced'))).toBe('sluice');
    symlinkSync('sluice', join(root, 'usr/bin/kubectl-sluice'));
    for (const [name, program] of [
      ['sluiced', 'sluiced'],
      ['kubectl-sluice', 'sluice'],
    ] as const)
      expect(start(root, name, ['version']).stdout).toMatch(new RegExp(`^${program} `));
  });

  test('are small: package, installed files and archive', (context) => {
    if (whyNot) return context.skip(whyNot);
    const megabytes = (path: string): number => statSync(path).size / 1e6;
    expect(megabytes(artefact(`_${arch}.deb`))).toBeLessThan(45);
    expect(megabytes(artefact(`-linux-${nodeArch}.tar.zst`))).toBeLessThan(38);
    const root = unpackDeb(arch);
    const files = readdirSync(root, { recursive: true, encoding: 'utf8' }).map((path) => lstatSync(join(root, path)));
    expect(files.reduce((sum, file) => sum + (file.isFile() ? file.size : 0), 0) / 1e6).toBeLessThan(130);
  });

  test('render an example to its golden files', (context) => {
    if (whyNot) return context.skip(whyNot);
    const root = unpackDeb(arch);
    const target = join(scratch(), 'out');
    const config = readdirSync(example).includes('sluice.yaml') ? ['-c', join(example, 'sluice.yaml')] : [];
    const done = start(root, 'sluice', ['render', '-f', join(example, 'in'), ...config, '-o', target]);
    expect({ exitCode: done.exitCode, stderr: done.stderr }).toMatchObject({ exitCode: 0 });
    execaSync('diff', ['-r', '-x', '.sluice-complete', join(example, 'out'), target]);
  });
});
