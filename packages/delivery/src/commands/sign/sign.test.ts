import { execFileSync } from 'node:child_process';
import { appendFileSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { makeKey, signBy } from '@sluice/testing';
import { describe, expect, test, vi } from 'vitest';
import { filesOf, releaseScratch, source } from '../release/scratch.fixture.ts';

const { scratch, release, signers, lineOf, make, sign, verify } = releaseScratch();

describe('sluice sign and verify', async () => {
  test('adds one file per signer, which plain ssh-keygen verifies', async () => {
    await make();
    const before = filesOf(release);
    expect(await sign('alice')).toMatchObject({ status: 0 });
    expect(await sign('bob', '--as', 'bob')).toMatchObject({ status: 0 });
    const [first, second] = [join(release, 'SHA256SUMS.sig'), join(release, 'SHA256SUMS.bob.sig')];
    const { [first]: one, [second]: two, ...rest } = filesOf(release);
    expect(rest).toEqual(before);
    expect([one, two]).toEqual([expect.stringContaining('SSH SIGNATURE'), expect.stringContaining('SSH SIGNATURE')]);
    expect(await verify('--threshold', '2', '-o', 'json')).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/"signers": \[\s+"alice",\s+"bob"\s+\]/),
    });
    const byHand = ['-Y', 'verify', '-f', signers, '-I', 'bob', '-n', 'sluice-release', '-s', second];
    expect(
      execFileSync('/usr/bin/ssh-keygen', byHand, { input: before[join(release, 'SHA256SUMS')], encoding: 'utf8' }),
    ).toContain('Good');
  });

  test('describes the release before it asks for the key', async () => {
    await make();
    const [digest] = execFileSync('/usr/bin/sha256sum', [join(release, 'SHA256SUMS')], { encoding: 'utf8' }).split(' ');
    const what = `${release}: release 1 of ipvs, from commit ${source}, SHA256SUMS has sha256:${digest}\n`;
    expect(await sign('alice')).toMatchObject({
      stderr: `${what}${join(release, 'SHA256SUMS.sig')}: signed with a key of type ssh-ed25519\n`,
    });
    expect(await sign('nobody', '--as', 'nobody')).toMatchObject({ status: 2, stderr: expect.stringContaining(what) });
  });

  test('does not sign when another release is written during the passphrase prompt', async () => {
    const [slow, ask] = [join(scratch, 'slow'), join(scratch, 'ask')];
    execFileSync('/usr/bin/ssh-keygen', ['-q', '-t', 'ed25519', '-N', 'secret', '-f', slow]);
    await make();
    writeFileSync(ask, `#!/bin/sh\necho '# another' >> '${release}/SHA256SUMS'\necho secret\n`, { mode: 0o755 });
    vi.stubEnv('SSH_ASKPASS', ask);
    vi.stubEnv('SSH_ASKPASS_REQUIRE', 'force');
    try {
      const refused = await sign('slow');
      expect(refused).toMatchObject({ status: 2, stderr: expect.stringContaining('[RELEASE_INVALID]') });
      expect(refused.stderr).toContain('another release was written there in the meantime');
    } finally {
      vi.unstubAllEnvs();
    }
    expect(readdirSync(release)).not.toContain('SHA256SUMS.sig');
  });

  test('reports a directory for temporary files that is not writable', async () => {
    await make();
    await sign('alice');
    try {
      vi.stubEnv('TMPDIR', join(scratch, 'nowhere'));
      expect(await verify()).toMatchObject({ status: 2, stderr: expect.stringContaining('[OUTPUT_UNWRITABLE]') });
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test('accepts an expired release with a warning, as nodes do', async () => {
    await make('--expires', '2020-01-31T00:00:00Z');
    await sign('alice');
    expect(await verify()).toMatchObject({ status: 0, stderr: expect.stringContaining('[RELEASE_EXPIRED]') });
    await make('--serial', '9', '--expires', '2999-01-31T00:00:00Z');
    await sign('alice');
    expect(await verify()).toMatchObject({ status: 0, stderr: '' });
  });

  test('signs with a key that only an agent has', async () => {
    const [key, socket] = [join(scratch, 'agent-only'), join(scratch, 'agent')];
    makeKey(key);
    const started = execFileSync('/usr/bin/ssh-agent', ['-s', '-a', socket], { encoding: 'utf8' });
    try {
      vi.stubEnv('SSH_AUTH_SOCK', socket);
      execFileSync('/usr/bin/ssh-add', ['-q', key], { stdio: 'ignore' });
      rmSync(key);
      await make();
      expect(await sign('agent-only.pub')).toMatchObject({ status: 0 });
      writeFileSync(signers, lineOf('agent-only'));
      expect(await verify()).toMatchObject({ status: 0, stdout: expect.stringContaining('signed by agent-only') });
    } finally {
      vi.unstubAllEnvs();
      process.kill(Number(/SSH_AGENT_PID=(\d+)/.exec(started)?.[1]));
    }
  });

  test('counts two signatures of one key once', async () => {
    await make();
    await sign('alice');
    await sign('alice', '--as', 'again');
    expect(await verify('--threshold', '2')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('alice only'),
    });
  });

  test('counts two keys of one principal once', async () => {
    await make();
    await sign('alice');
    await sign('bob', '--as', 'bob');
    writeFileSync(signers, lineOf('alice') + lineOf('bob').replace('bob', 'alice') + lineOf('mallory'));
    expect((await verify('--threshold', '2')).status).toBe(2);
    expect((await verify('--threshold', '1')).status).toBe(0);
  });

  test('does not replace a signature, and does not sign files that do not match', async () => {
    await make();
    await sign('alice');
    expect((await sign('bob')).status).toBe(2);
    appendFileSync(join(release, 'cluster.yaml'), '# x\n');
    expect(await sign('bob', '--as', 'bob')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('another digest'),
    });
  });

  const sums = join(release, 'SHA256SUMS');
  const signature = join(release, 'SHA256SUMS.sig');
  const allow = (...lines: readonly string[]): void => writeFileSync(signers, lines.join(''));
  const valid = (option: string): string => lineOf('alice', `namespaces="sluice-release",${option}`);
  const signedFor = (namespace: string, name = 'alice', input = readFileSync(sums, 'utf8')): string =>
    signBy(join(scratch, name), namespace, input);
  const changed = (path: string): void => appendFileSync(join(release, path), '# x\n');
  const sumsAgain = (): void => {
    const recount = 'sha256sum $(cut -c67- SHA256SUMS) > new && mv new SHA256SUMS';
    execFileSync('/bin/sh', ['-c', recount], { cwd: release });
  };

  // Each release is signed by alice before it is modified.
  test.each([
    ['no signature', () => rmSync(signature), 'no good signature'],
    [
      'a signature of an unknown key',
      () => writeFileSync(signature, signedFor('sluice-release', 'mallory')),
      'not in allowed_signers',
    ],
    ['a signature for Git commits', () => writeFileSync(signature, signedFor('git')), 'for namespace'],
    ['an expired key', () => allow(valid('valid-before="20200101Z"')), 'expired'],
    ['a key that is not valid yet', () => allow(valid('valid-after="29990101Z"')), 'not yet valid'],
    [
      'a key for Git commits only',
      () => allow(lineOf('alice', 'namespaces="git"'), lineOf('bob')),
      'not allowed for namespace',
    ],
    ['no permitted signer', () => allow(''), 'principals for namespace sluice-release: 0, needed: 1'],
    [
      'a line without namespaces',
      () => allow(lineOf('alice').replace('namespaces="sluice-release" ', '')),
      'no namespaces',
    ],
    ['a malformed line before a good one', () => allow('nonsense\n', lineOf('alice')), 'SIGNERS_INVALID'],
    ['garbage behind the signature', () => changed('SHA256SUMS.sig'), 'exactly one SSH signature'],
    ['two signatures in a file', () => appendFileSync(signature, signedFor('sluice-release')), 'armour'],
    [
      'a signature of another SHA256SUMS',
      () => writeFileSync(signature, signedFor('sluice-release', 'alice', 'old')),
      'refuses it',
    ],
    ['a modified file', () => changed('nodes/node-1/node.yaml'), 'another digest'],
    ['a modified release.yaml', () => changed('release.yaml'), 'another digest'],
    ['a modified file and regenerated SHA256SUMS', () => (changed('cluster.yaml'), sumsAgain()), 'refuses it'],
    [
      'a missing file',
      () => rmSync(join(release, 'profiles/default/services/shop/web.ipvs')),
      'is listed, but missing',
    ],
    ['a foreign file', () => writeFileSync(join(release, 'run.sh'), 'x'), 'not a file of a release'],
  ] as const)('refuses a release with %s', async (_title, spoil, expected) => {
    await make();
    await sign('alice');
    spoil();
    expect(await verify()).toMatchObject({ status: 2, stderr: expect.stringContaining(expected) });
  });
});
