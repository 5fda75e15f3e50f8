import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { appendFileSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { programPath } from '@sluice/testing';
import { describe, expect, test } from 'vitest';
import { sluice } from '../../../../sluice/src/in-process.fixture.ts';
import { example, filesOf, releaseScratch, source } from './scratch.fixture.ts';

const { scratch, bundle, release, make, sign, verify } = releaseScratch();

describe('sluice release', async () => {
  test('writes the same bytes for the same arguments, which sha256sum verifies', async () => {
    expect(await make()).toMatchObject({ status: 0, stdout: '1\n' });
    const before = filesOf(release);
    rmSync(release, { recursive: true });
    await make();
    expect(filesOf(release)).toEqual(before);
    expect(
      execFileSync('/usr/bin/sha256sum', ['--strict', '--quiet', '-c', 'SHA256SUMS'], {
        cwd: release,
        encoding: 'utf8',
      }),
    ).toBe('');
  });

  test('keeps serial and signatures without changes; changed content gets the next serial and no signatures', async () => {
    await make();
    await sign('alice');
    expect((await make()).stdout).toBe('1\n');
    expect((await verify()).status).toBe(0);
    appendFileSync(join(bundle, 'cluster.yaml'), '# a note\n');
    expect((await make()).stdout).toBe('2\n');
    expect(await verify()).toMatchObject({ status: 2, stderr: expect.stringContaining('RELEASE_UNSIGNED') });
  });

  test('marks a release as urgent only with --urgent, as another release', async () => {
    const required = (): string =>
      /^requires: .*$/m.exec(readFileSync(join(release, 'release.yaml'), 'utf8'))?.[0] ?? '';
    await make();
    expect(required()).toBe('requires: [mode-ipvs]');
    expect(await make('--urgent')).toMatchObject({ status: 0, stdout: '2\n' });
    expect(required()).toBe('requires: [mode-ipvs, urgent]');
  });

  test('accepts a removal only with --accept-removal, which nodes must know', async () => {
    await make();
    const said = await make('--accept-removal');
    expect(said).toMatchObject({ status: 0, stdout: '2\n', stderr: expect.stringContaining('RELEASE_NEEDS_SLUICED') });
    expect(readFileSync(join(release, 'release.yaml'), 'utf8')).toContain('requires: [accept-removal, mode-ipvs]\n');
    expect((await make()).stdout, 'another one does not say it').toBe('3\n');
  });

  test('warns once that nodes need a newer sluiced, where the release before did not require it', async () => {
    expect((await make()).stderr).not.toContain('RELEASE_NEEDS_SLUICED');
    for (const name of ['cluster.yaml', 'nodes', 'profiles']) rmSync(join(bundle, name), { recursive: true });
    cpSync(join(example, '../../13-nftables/out'), bundle, { recursive: true });
    // Only where the example was rendered.
    rmSync(join(bundle, '.sluice-complete'), { force: true });
    writeFileSync(join(bundle, 'cluster.yaml'), readFileSync(join(example, 'cluster.yaml')));
    expect(await make()).toMatchObject({
      status: 0,
      stderr: expect.stringMatching(
        /warning: Release 2 requires mode-nftables, unlike release 1: .*\n.*Upgrade sluiced on all nodes first/,
      ),
    });
    expect((await make()).stderr, 'the same release again').not.toContain('RELEASE_NEEDS_SLUICED');
  });

  test('keeps the last serial after an interrupted write', async () => {
    await make();
    appendFileSync(join(bundle, 'cluster.yaml'), '# a note\n');
    const blocked = join(release, 'cluster.yaml');
    rmSync(blocked);
    mkdirSync(blocked);
    expect((await make()).status, 'a folder in place of a file').not.toBe(0);
    rmSync(blocked, { recursive: true });
    expect(await make()).toMatchObject({ status: 0, stdout: '2\n' });
  });

  test.each(['SHA256SUMS.sig', 'waves-open.yaml'])(
    'does not choose a serial when only %s of a release is left',
    async (file) => {
      await make();
      for (const name of ['release.yaml', 'SHA256SUMS']) rmSync(join(release, name));
      writeFileSync(join(release, file), 'x\n');
      expect(await make()).toMatchObject({ status: 2, stderr: expect.stringContaining('RELEASE_SERIAL') });
      expect((await make('--serial', '7')).stdout, 'an explicit serial is accepted').toBe('7\n');
    },
  );

  test.each([
    ['a used serial for other content', ['--serial', '1', '--source', source.replace('0', '1')], 'RELEASE_SERIAL'],
    ['serial 0', ['--serial', '0'], 'whole number'],
    ['a short commit', ['--source', 'abc123'], 'full commit ID'],
    ['a day that does not exist', ['--expires', '2027-02-30T00:00:00Z'], 'in UTC'],
    ['the directory of the bundle', ['-o', bundle], 'OUTPUT_NOT_A_BUNDLE'],
    ['a directory below that one', ['-o', join(bundle, 'made/here')], 'OUTPUT_NOT_A_BUNDLE'],
  ])('refuses %s', async (_title, more, expected) => {
    await make();
    expect(await make(...more)).toMatchObject({
      status: expect.toSatisfy((code: number) => code > 0),
      stderr: expect.stringContaining(expected),
    });
  });

  test('refuses a directory with a reviewed bundle', async () => {
    cpSync(example, release, { recursive: true });
    const before = filesOf(release);
    expect(await make()).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('a bundle that is not a release'),
    });
    expect(filesOf(release)).toEqual(before);
  });

  test('refuses a serial beyond the maximum and keeps the directory', async () => {
    expect(await make('--serial', '999999999999')).toMatchObject({ status: 0 });
    appendFileSync(join(bundle, 'cluster.yaml'), '# a note\n');
    const before = filesOf(release);
    expect(await make()).toMatchObject({ status: 2, stderr: expect.stringContaining('RELEASE_SERIAL') });
    expect(filesOf(release)).toEqual(before);
  });

  describe('after an interrupted write', () => {
    const again = (...more: readonly string[]) => make('--serial', '7', ...more);
    const update = () => sluice('release', bundle, '--endpoints', '--source', source, '-o', release);
    /** A folder in place of SHA256SUMS, the first file removed and the last file written. */
    const breakOff = async (...more: readonly string[]): Promise<void> => {
      mkdirSync(join(release, 'SHA256SUMS'), { recursive: true });
      expect(await again(...more)).toMatchObject({ status: 2, stderr: expect.stringContaining('OUTPUT_UNWRITABLE') });
      rmSync(join(release, 'SHA256SUMS'), { recursive: true });
    };

    test('completes the release with the same command', async () => {
      await again();
      const whole = filesOf(release);
      rmSync(release, { recursive: true });
      await breakOff();
      expect(await again()).toMatchObject({ status: 0, stdout: '7\n' });
      expect(filesOf(release)).toEqual(whole);
    });

    test('completes the release while the SHA256SUMS of the previous one still exists', async () => {
      await make();
      const sums = readFileSync(join(release, 'SHA256SUMS'));
      rmSync(join(release, 'SHA256SUMS'));
      await breakOff();
      writeFileSync(join(release, 'SHA256SUMS'), sums);
      expect(await again()).toMatchObject({ status: 0, stdout: '7\n' });
      await sign('alice');
      expect(await verify()).toMatchObject({ status: 0 });
    });

    test('gives changed content another serial, and refuses an update', async () => {
      await breakOff();
      expect(await sign('alice')).toMatchObject({
        status: 2,
        stderr: expect.stringContaining('SHA256SUMS is missing'),
      });
      appendFileSync(join(bundle, 'nodes/node-1/node.yaml'), '# a note\n');
      expect(await update()).toMatchObject({ status: 2, stderr: expect.stringContaining('is incomplete') });
      expect(await again('--source', source.replace('0', '1'))).toMatchObject({ status: 2 });
      expect(await make('--source', source.replace('0', '1'))).toMatchObject({ status: 0, stdout: '8\n' });
    });

    test('makes an update after the previous release was restored', async () => {
      await make();
      const before = ['SHA256SUMS', 'release.yaml'].map(
        (name) => [join(release, name), readFileSync(join(release, name))] as const,
      );
      rmSync(join(release, 'SHA256SUMS'));
      await breakOff('--source', source.replace('0', '1'));
      for (const [path, bytes] of before) writeFileSync(path, bytes);
      expect(await update()).toMatchObject({ status: 0, stdout: '1\n' });
    });

    describe('or with a release.yaml that was restored or is the only file left', () => {
      const wavesAgain = join(scratch, 'waves-again.yaml');
      const list = (text: string): void =>
        writeFileSync(wavesAgain, `apiVersion: sluice.dev/v1alpha1\nkind: Waves\nwaves: [${text}]\n`);
      const restored = async (isKept: boolean): Promise<void> => {
        list('{name: all, nodes: rest}');
        await again('--wave', wavesAgain);
        const before = readFileSync(join(release, 'release.yaml'));
        if (isKept) {
          rmSync(release, { recursive: true });
          mkdirSync(release);
        } else await make('--serial', '999999999999', '--wave', wavesAgain);
        writeFileSync(join(release, 'release.yaml'), before);
      };

      test.each([true, false])('does not reuse a serial, only file: %s', async (isKept) => {
        await restored(isKept);
        list('{name: canary, nodes: [node-1]}, {name: all, nodes: rest}');
        expect(await make('--wave', wavesAgain)).toMatchObject({ status: 0, stdout: '8\n' });
      });

      test('makes an update', async () => {
        await again();
        for (const name of readdirSync(release))
          if (name !== 'release.yaml') rmSync(join(release, name), { recursive: true });
        const { stderr } = await update();
        expect(stderr).toContain('update 1 of release 7');
      });
    });

    test('does not reuse the serial of a complete release with other waves', async () => {
      const waves = join(scratch, 'waves-again.yaml');
      const say = (list: string): void =>
        writeFileSync(waves, `apiVersion: sluice.dev/v1alpha1\nkind: Waves\nwaves: [${list}]\n`);
      say('{name: all, nodes: rest}');
      await again('--wave', waves);
      say('{name: canary, nodes: [node-1]}, {name: all, nodes: rest}');
      expect(await again('--wave', waves)).toMatchObject({
        status: 2,
        stderr: expect.stringContaining('other content'),
      });
    });
  });

  test('gives each serial once to concurrent commands', async () => {
    const path = programPath('sluice');
    const given = ['1', '2', '3', '4'].map(async (digit) => {
      const args = ['release', bundle, '--serial', 'auto', '--source', digit.repeat(40), '-o', release];
      return promisify(execFile)(process.execPath, [path, ...args]).then(
        ({ stdout }) => stdout,
        ({ stderr }: { stderr: string }) => stderr,
      );
    });
    const output = await Promise.all(given);
    const serials = output.filter((text) => /^\d+\n$/.test(text));
    expect(serials.length).toBeGreaterThan(0);
    expect(new Set(serials).size).toBe(serials.length);
    const refused = output.filter((text) => !serials.includes(text));
    expect(refused.filter((text) => !text.includes('written there in the meantime'))).toEqual([]);
    await sign('alice');
    expect(await verify()).toMatchObject({ status: 0 });
  });

  const readOnly = 'mount -t tmpfs -o ro none "$1" && shift && exec "$@"';
  const inNamespace = (...args: readonly string[]) => spawnSync('unshare', ['-rm', ...args], { encoding: 'utf8' });
  test.skipIf(inNamespace('true').status !== 0)('reports a read-only file system', () => {
    mkdirSync(release);
    const started = [process.execPath, programPath('sluice')];
    const args = ['release', bundle, '--serial', 'auto', '--source', source, '-o', release];
    const { stderr } = inNamespace('sh', '-c', readOnly, 'sh', release, ...started, ...args);
    expect(stderr).toContain(`Cannot write ${release}: read-only file system [OUTPUT_UNWRITABLE]`);
  });

  const waves = join(scratch, 'waves.yaml');
  const write = (text: string): void => writeFileSync(waves, `apiVersion: sluice.dev/v1alpha1\nkind: Waves\n${text}`);

  test('assigns every node to a signed wave; other waves are another release', async () => {
    write('waves: [{name: canary, nodes: [node-1]}, {name: others, nodes: rest}]\n');
    expect(await make('--wave', waves)).toMatchObject({ status: 0, stdout: '1\n' });
    expect(readFileSync(join(release, 'waves.yaml'), 'utf8')).toContain(
      '- name: "others"\n    nodes:\n      - "node-2"\n',
    );
    await sign('alice');
    expect(await verify()).toMatchObject({ status: 0, stdout: expect.stringContaining('waves     0 of 2 open\n') });
    await sluice('promote', release);
    expect((await verify('-o', 'json')).stdout).toContain('"open": 1');
    expect((await make('--wave', waves)).stdout).toBe('1\n');
    expect((await make()).stdout).toBe('2\n');
    expect(readdirSync(release)).not.toContain('waves.yaml');
  });

  test('refuses waves without a node, and detects a modified waves.yaml', async () => {
    write('waves: [{name: canary, nodes: [node-1]}]\n');
    expect(await make('--wave', waves)).toMatchObject({ status: 2, stderr: expect.stringContaining('is in no wave') });
    write('waves: [{name: all, nodes: rest}]\n');
    await make('--wave', waves);
    await sign('alice');
    appendFileSync(join(release, 'waves.yaml'), '# x\n');
    expect(await verify()).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('waves.yaml has another digest'),
    });
  });

  test('refuses an interrupted render', async () => {
    writeFileSync(join(bundle, '.sluice-complete'), 'sha256:0\n');
    expect(await make()).toMatchObject({ status: 2, stderr: expect.stringContaining('BUNDLE_INCOMPLETE') });
  });
});
