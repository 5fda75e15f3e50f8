import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { sluice } from '../../../../sluice/src/in-process.fixture.ts';
import {
  allowed,
  at,
  bundle,
  lineOf,
  promote,
  receipts,
  release,
  releaseOf,
  say,
  sign,
  withFleet,
} from './fleet.fixture.ts';

withFleet();

describe('sluice promote', async () => {
  let signatureBefore = '';
  const line = (): string | undefined => readFileSync(join(release, 'waves-open.yaml'), 'utf8').split('\n').at(-2);

  test('opens wave after wave with a signed opening each, and waits for receipts in between', async () => {
    expect(await sluice('promote', release, '--key', at('waves'))).toMatchObject({
      status: 0,
      stdout: expect.stringContaining('wave 1 of 2 (canary, 1 node) is open'),
    });
    expect(line()).toBe('open: 1');
    expect(await promote()).toMatchObject({ status: 1, stderr: expect.stringContaining('node-1 is silent') });
    expect(line()).toBe('open: 1');
    say('node-1', 'confirmed');
    expect(await promote('--dry-run')).toMatchObject({ status: 0, stdout: expect.stringContaining('may be opened') });
    expect(line()).toBe('open: 1');
    expect(await promote()).toMatchObject({ status: 0 });
    expect(line()).toBe('open: 2');
    expect(await promote()).toMatchObject({ status: 0, stdout: expect.stringContaining('all 2 waves are open') });
    const allowedWaves = at('allowed_waves');
    writeFileSync(allowedWaves, lineOf('waves').replace('receipt', 'wave'));
    const args = [
      '-Y',
      'verify',
      '-f',
      allowedWaves,
      '-I',
      'waves',
      '-n',
      'sluice-wave',
      '-s',
      join(release, 'waves-open.yaml.sig'),
    ];
    expect(
      execFileSync('/usr/bin/ssh-keygen', args, {
        input: readFileSync(join(release, 'waves-open.yaml')),
        encoding: 'utf8',
      }),
    ).toContain('Good');
  });

  test('requires receipts once a wave is open', async () => {
    await sluice('promote', release);
    expect(await sluice('promote', release)).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('WAVE_NOT_READY'),
    });
  });

  test('removes the old signature when it opens a wave without a key', async () => {
    await promote();
    say('node-1', 'confirmed');
    const unsigned = ['promote', release, '--receipts', receipts, '--allowed-receipts', allowed];
    expect(await sluice(...unsigned)).toMatchObject({
      status: 0,
      stderr: expect.stringContaining('ssh-keygen -Y sign -n sluice-wave'),
    });
    expect(() => readFileSync(join(release, 'waves-open.yaml.sig'))).toThrow('ENOENT');
  });

  test.each([
    [
      'was killed before it wrote the signature',
      async () => writeFileSync(join(release, 'waves-open.yaml.sig'), signatureBefore),
    ],
    ['had no key', async () => rmSync(join(release, 'waves-open.yaml.sig'))],
  ] as const)('completes a promotion that %s', async (_title, spoil) => {
    await promote();
    signatureBefore = readFileSync(join(release, 'waves-open.yaml.sig'), 'utf8');
    say('node-1', 'confirmed');
    await promote();
    await spoil();
    expect(await promote()).toMatchObject({ status: 0, stdout: expect.stringContaining('wave 2 of 2') });
    expect(line()).toBe('open: 2');
    expect(readFileSync(join(release, 'waves-open.yaml.sig'), 'utf8')).not.toBe(signatureBefore);
    expect(await promote()).toMatchObject({ status: 0, stdout: expect.stringContaining('all 2 waves are open') });
  });

  test('does not trust an unsigned opening beyond the receipts', async () => {
    await promote();
    const opening = join(release, 'waves-open.yaml');
    writeFileSync(opening, readFileSync(opening, 'utf8').replace('open: 1', 'open: 2'));
    expect(await promote()).toMatchObject({ status: 1, stderr: expect.stringContaining('node-1 is silent') });
  });

  describe('with three waves and an unsigned opening of all of them', () => {
    const opening = join(release, 'waves-open.yaml');
    const jump = () => writeFileSync(opening, readFileSync(opening, 'utf8').replace(/open: .*/, 'open: 3'));
    const unsigned = () => rmSync(`${opening}.sig`);
    beforeEach(async () => {
      rmSync(release, { recursive: true });
      cpSync(join(bundle, 'nodes/node-2'), join(bundle, 'nodes/node-3'), { recursive: true });
      const list = '[{name: one, nodes: [node-1]}, {name: two, nodes: [node-2]}, {name: three, nodes: rest}]';
      writeFileSync(at('three.yaml'), `apiVersion: sluice.dev/v1alpha1\nkind: Waves\nwaves: ${list}\n`);
      const args = ['--serial', '1', '--source', 'c'.repeat(40), '--wave', at('three.yaml'), '-o', release];
      const made = await sluice('release', bundle, ...args);
      if (made.status !== 0) throw new Error(made.stderr);
      await promote();
      say('node-1', 'confirmed');
    });

    test('continues from the signed wave', async () => {
      jump();
      expect(await promote('--quorum', '50')).toMatchObject({
        status: 0,
        stdout: expect.stringContaining('wave 2 of 3'),
      });
      expect(line()).toBe('open: 2');
      expect(await promote('--quorum', '51')).toMatchObject({
        status: 1,
        stderr: expect.stringContaining('node-2 is silent'),
      });
    });

    test('without a signature opens waves as long as all of their nodes report the release', async () => {
      jump();
      unsigned();
      expect(await promote('--quorum', '50')).toMatchObject({ stdout: expect.stringContaining('wave 2 of 3') });
      expect(line()).toBe('open: 2');
      jump();
      unsigned();
      say('node-2', 'confirmed');
      expect(await promote('--quorum', '50')).toMatchObject({ stdout: expect.stringContaining('wave 3 of 3') });
      expect(line()).toBe('open: 3');
    });

    test('without receipts opens only the first wave', async () => {
      jump();
      unsigned();
      expect(await sluice('promote', release, '--key', at('waves'))).toMatchObject({ status: 0 });
      expect(line()).toBe('open: 1');
    });

    test('accepts a signature of an opening in another form', async () => {
      writeFileSync(opening, `# by hand\n${readFileSync(opening, 'utf8').replace(/open: .*/, 'open: 2')}`);
      writeFileSync(`${opening}.sig`, sign(readFileSync(opening, 'utf8'), 'waves', 'sluice-wave'));
      expect(await promote('--quorum', '50')).toMatchObject({ stdout: expect.stringContaining('wave 3 of 3') });
    });
  });

  test('does not sign when another release is written during the passphrase prompt', async () => {
    const slow = at('slow');
    if (!existsSync(slow)) execFileSync('/usr/bin/ssh-keygen', ['-q', '-t', 'ed25519', '-N', 'secret', '-f', slow]);
    writeFileSync(at('ask'), `#!/bin/sh\necho '# another' >> '${release}/SHA256SUMS'\necho secret\n`, { mode: 0o755 });
    vi.stubEnv('SSH_ASKPASS', at('ask'));
    vi.stubEnv('SSH_ASKPASS_REQUIRE', 'force');
    try {
      const refused = await sluice('promote', release, '--key', slow);
      expect(refused).toMatchObject({ status: 2, stdout: '', stderr: expect.stringContaining('[RELEASE_INVALID]') });
      expect(refused.stderr).toContain('another release was written there in the meantime');
    } finally {
      vi.unstubAllEnvs();
    }
    expect(readdirSync(release).filter((name) => name.startsWith('waves-open'))).toEqual([]);
  });

  test('asks about a node that was confirmed with failing probes', async () => {
    await promote();
    say('node-1', 'confirmed', { probes: [{ name: 'web', healthy: false }] });
    const asked = await promote();
    expect(asked).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('node-1 is confirmed: with failing probes: web'),
    });
    expect(asked.stderr).toContain('--accept-failing');
    expect(line()).toBe('open: 1');
    expect(await promote('--accept-failing')).toMatchObject({ status: 0 });
    expect(line()).toBe('open: 2');
  });

  test('exits with 1 after the last wave while a node has failed', async () => {
    await promote();
    say('node-1', 'confirmed');
    await promote();
    say('node-1', 'rolled-back');
    expect(await promote()).toMatchObject({
      status: 1,
      stdout: expect.stringContaining('all 2 waves are open'),
      stderr: expect.stringContaining('Cannot complete the release: node-1 is rolled back'),
    });
  });

  describe('with an endpoint update in place of its release', async () => {
    beforeEach(async () => {
      await promote();
      say('node-1', 'confirmed');
      const made = await sluice('release', bundle, '--endpoints', '--source', 'd'.repeat(40), '-o', release);
      if (made.status !== 0) throw new Error(made.stderr);
    });

    test('refuses an update that only endpoint keys have signed, with a hint', async () => {
      await sluice('sign', release, '--key', at('mallory'), '--endpoints');
      const refused = await promote();
      expect(refused).toMatchObject({ status: 2, stdout: '' });
      expect(refused.stderr).toContain('it contains revision 1 of release 1');
      expect(refused.stderr).toMatch(/does not use waves \[WAVES_INVALID\][^]*Restore release 1/);
      expect(() => readFileSync(join(release, 'waves-open.yaml'))).toThrow('ENOENT');
    });

    test('opens waves of an update that a release key has signed', async () => {
      await sluice('sign', release, '--key', at('mallory'), '--endpoints');
      await sluice('sign', release, '--key', at('waves'), '--as', 'signer');
      expect(await promote()).toMatchObject({ status: 0, stdout: expect.stringContaining('wave 1 of 2') });
    });
  });

  test('ignores the opening of an older release', async () => {
    await promote();
    say('node-1', 'confirmed');
    await promote();
    const before = readFileSync(join(release, 'waves-open.yaml'), 'utf8');
    await releaseOf('d'.repeat(40));
    expect(() => readFileSync(join(release, 'waves-open.yaml'))).toThrow('ENOENT');
    writeFileSync(join(release, 'waves-open.yaml'), before);
    expect(await promote()).toMatchObject({ status: 0, stdout: expect.stringContaining('wave 1 of 2') });
  });

  test.each([
    [
      'a release without waves',
      () => {
        rmSync(release, { recursive: true });
        return sluice('release', bundle, '--serial', '7', '--source', 'c'.repeat(40), '-o', release);
      },
      'this release has no waves',
    ],
    [
      'files that do not match the release',
      async () => writeFileSync(join(release, 'waves.yaml'), 'waves: 7\n'),
      'another digest',
    ],
    ['a missing key', async () => renameSync(at('waves'), at('waves.away')), 'ssh-keygen failed'],
  ] as const)('refuses %s and opens no wave', async (_title, spoil, expected) => {
    await spoil();
    expect(await promote()).toMatchObject({ status: 2, stderr: expect.stringContaining(expected) });
    expect(() => readFileSync(join(release, 'waves-open.yaml'))).toThrow('ENOENT');
  });
});
