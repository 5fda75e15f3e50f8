import { execFile, execFileSync, spawnSync } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { programPath } from '@sluice/testing';
import { afterAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { sluice } from '../in-process.fixture.ts';

const root = join(import.meta.dirname, '../../../../..');
const example = join(root, 'examples/10-ipvs/out');
const scratch = mkdtempSync(join(tmpdir(), 'sluice-release-'));
const bundle = join(scratch, 'bundle');
const release = join(scratch, 'release');
const signers = join(scratch, 'allowed_signers');
const source = 'c0ffee'.padEnd(40, '0');
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

for (const name of ['alice', 'bob', 'mallory', 'ends'])
  execFileSync('/usr/bin/ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', join(scratch, name)]);

const make = (...more: readonly string[]) =>
  sluice('release', bundle, '--serial', 'auto', '--source', source, '-o', release, ...more);
const sign = (name: string, ...more: readonly string[]) =>
  sluice('sign', release, '--key', join(scratch, name), ...more);
const verify = (...more: readonly string[]) => sluice('verify', release, '--allowed-signers', signers, ...more);
const lineOf = (name: string, options = 'namespaces="sluice-release"'): string =>
  `${name} ${options} ${readFileSync(join(scratch, `${name}.pub`), 'utf8')
    .split(' ')
    .slice(0, 2)
    .join(' ')}\n`;
const filesOf = (dir: string): Record<string, string> =>
  Object.fromEntries(
    readdirSync(dir, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => [join(entry.parentPath, entry.name), readFileSync(join(entry.parentPath, entry.name), 'latin1')]),
  );

beforeEach(() => {
  for (const dir of [bundle, release]) rmSync(dir, { recursive: true, force: true });
  cpSync(example, bundle, { recursive: true });
  // In a work tree a changed bundle needs no `.sluice-complete`.
  rmSync(join(bundle, '.sluice-complete'), { force: true });
  execFileSync('/usr/bin/git', ['init', '-q', bundle]);
  writeFileSync(signers, lineOf('alice') + lineOf('bob'));
});

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
    execFileSync('/usr/bin/ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'agent-only', '-f', key]);
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
  const signedFor = (namespace: string, name = 'alice', input = readFileSync(sums, 'utf8')): string => {
    const args = ['-Y', 'sign', '-q', '-n', namespace, '-f', join(scratch, name)];
    return execFileSync('/usr/bin/ssh-keygen', args, { input, encoding: 'utf8' });
  };
  const changed = (path: string): void => appendFileSync(join(release, path), '# x\n');
  const sumsAnew = (): void => {
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
    ['a modified file and regenerated SHA256SUMS', () => (changed('cluster.yaml'), sumsAnew()), 'refuses it'],
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

describe('an endpoint update', () => {
  const update = () => sluice('release', bundle, '--endpoints', '--source', source, '-o', release);
  const edit = (n: number) => appendFileSync(join(bundle, 'cluster.yaml'), `# ${n}\n`);
  const node = (name: string): string => join(bundle, 'nodes', name);
  const makeInWaves = async (): Promise<void> => {
    const file = join(scratch, 'waves-of-update.yaml');
    const waves = 'waves: [{name: canary, nodes: [node-1]}, {name: others, nodes: rest}]\n';
    writeFileSync(file, `apiVersion: sluice.dev/v1alpha1\nkind: Waves\n${waves}`);
    expect(await make('--wave', file)).toMatchObject({ status: 0 });
  };

  test('has the serial of its release and the next revision, and keeps it without changes', async () => {
    expect(await update()).toMatchObject({ status: 2, stderr: expect.stringContaining('contains no release') });
    await make();
    for (const revision of [1, 2]) {
      edit(revision);
      expect(await update()).toMatchObject({
        stdout: '1\n',
        stderr: expect.stringContaining(`update ${revision} of release 1`),
      });
      expect(readFileSync(join(release, 'release.yaml'), 'utf8')).toContain(`serial: 1\nrevision: ${revision}\n`);
    }
    expect((await update()).stderr).toContain('update 2 of release 1');
    expect((await make()).stdout, 'the next release has no revision').toBe('2\n');
    expect(readFileSync(join(release, 'release.yaml'), 'utf8')).not.toContain('revision');
  });

  test('is valid with one signature of an endpoint key, which is valid for nothing else', async () => {
    writeFileSync(signers, lineOf('alice') + lineOf('ends', 'namespaces="sluice-endpoints"'));
    await make();
    expect(await sign('ends', '--endpoints')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('not an endpoint update'),
    });
    edit(1);
    await update();
    await sign('ends', '--endpoints');
    expect(await verify('--threshold', '1')).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/revision +1\n[^]*signed by +ends \(endpoints only\)/),
    });
    await sign('alice', '--as', 'alice');
    expect((await verify()).stdout).toMatch(/signed by +alice\n/);
    const sums = readFileSync(join(release, 'SHA256SUMS.sig'));
    edit(2);
    await make();
    writeFileSync(join(release, 'SHA256SUMS.sig'), sums);
    expect(await verify()).toMatchObject({ status: 2, stderr: expect.stringContaining('RELEASE_UNSIGNED') });
  });

  test('has the waves of its release, all closed', async () => {
    await makeInWaves();
    await sluice('promote', release);
    const waves = readFileSync(join(release, 'waves.yaml'), 'utf8');
    for (const revision of [1, 2]) {
      edit(revision);
      expect((await update()).stderr).toContain(`update ${revision} of release 1`);
      expect(readFileSync(join(release, 'waves.yaml'), 'utf8')).toBe(waves);
      expect(readFileSync(join(release, 'release.yaml'), 'utf8')).toMatch(/requires: \[.*waves\]/);
      expect(readdirSync(release)).not.toContain('waves-open.yaml');
    }
    expect((await update()).stderr).toContain('unchanged');
    await sign('alice');
    expect(await verify()).toMatchObject({ status: 0, stdout: expect.stringContaining('waves     0 of 2 open\n') });
  });

  test.each([
    ['a node that is not in a wave', () => cpSync(node('node-1'), node('node-3'), { recursive: true }), 'node node-3'],
    ['a wave with a deleted node', () => rmSync(node('node-2'), { recursive: true }), 'no node node-2'],
    ['missing waves', () => rmSync(join(release, 'waves.yaml')), 'waves.yaml is missing'],
    ['invalid waves', () => writeFileSync(join(release, 'waves.yaml'), 'waves: 7\n'), 'Cannot read'],
  ])('is refused with %s, and the directory is kept', async (_title, change, expected) => {
    await makeInWaves();
    change();
    const before = filesOf(release);
    const refused = await update();
    expect(refused).toMatchObject({ status: 2, stderr: expect.stringContaining('WAVES_INVALID') });
    expect(refused.stderr).toContain(expected);
    expect(filesOf(release)).toEqual(before);
  });

  test('does not accept a serial or waves', async () => {
    expect(
      (await sluice('release', bundle, '--endpoints', '--serial', '3', '--source', source, '-o', release)).status,
    ).toBe(2);
    expect((await sluice('release', bundle, '--source', source, '-o', release)).stderr).toContain(
      "'--serial <N|auto>' not specified",
    );
  });
});
