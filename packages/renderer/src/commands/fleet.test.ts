import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { fileDigest, printReceipt, type Receipt, receiptFile, type ReceiptOutcome, readRelease } from '@sluice/bundle';
import { CommanderError } from 'commander';
import { afterAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { buildProgram } from '../cli/program.ts';
import { tellFailure } from './failure.ts';

const root = join(import.meta.dirname, '../../../..');
const scratch = mkdtempSync(join(tmpdir(), 'sluice-fleet-'));
const at = (...names: readonly string[]): string => join(scratch, ...names);
const [bundle, release, receipts, allowed] = [at('bundle'), at('release'), at('receipts'), at('allowed_receipts')];
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
for (const name of ['node-1', 'node-2', 'mallory', 'waves'])
  execFileSync('/usr/bin/ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', at(name)]);

/** The command in this process: a start of Node for each would take most of the time. */
async function sluice(...args: readonly string[]): Promise<{ status: number; stdout: string; stderr: string }> {
  const output = { stdout: '', stderr: '' };
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => ((output[name] += String(text)), true)),
  );
  const before = process.exitCode;
  try {
    await buildProgram().parseAsync(args, { from: 'user' });
    return { status: Number(process.exitCode), ...output };
  } catch (error) {
    return { status: error instanceof CommanderError ? 2 : tellFailure(error), ...output };
  } finally {
    process.exitCode = before;
    for (const spy of spies) spy.mockRestore();
  }
}
const sign = (text: string, name: string, namespace = 'sluice-receipt'): string =>
  execFileSync('/usr/bin/ssh-keygen', ['-Y', 'sign', '-q', '-n', namespace, '-f', at(name)], {
    input: text,
    encoding: 'utf8',
  });
const lineOf = (name: string, key = name): string =>
  `${name} namespaces="sluice-receipt" ${readFileSync(at(`${key}.pub`), 'utf8')
    .split(' ')
    .slice(0, 2)
    .join(' ')}\n`;

interface Word extends Partial<Receipt> {
  readonly by?: string;
  readonly namespace?: string;
  /** The name of the file; that of the receipt where it is left out. */
  readonly file?: string;
}
/** Puts a receipt where they are collected. */
function say(
  node: string,
  outcome: ReceiptOutcome,
  { by = node, namespace = 'sluice-receipt', file, ...rest }: Word = {},
): string {
  const sums = readFileSync(join(release, 'SHA256SUMS'), 'utf8');
  const made = readRelease(readFileSync(join(release, 'release.yaml'), 'utf8'));
  if ('code' in made) throw new Error(made.message);
  const receipt: Receipt = {
    node,
    number: 10,
    at: '2026-12-01T12:00:00Z',
    outcome,
    release: { cluster: made.cluster, serial: made.serial, digest: fileDigest(sums), version: '8'.repeat(16) },
    standing: { generation: 2, version: '8'.repeat(16) },
    codes: [],
    because: null,
    probes: [],
    sluiced: '0.1.0',
    ...rest,
  };
  const path = join(receipts, file ?? receiptFile(receipt));
  writeFileSync(path, printReceipt(receipt));
  writeFileSync(`${path}.sig`, sign(printReceipt(receipt), by, namespace));
  return path;
}
const fleet = (...more: readonly string[]) =>
  sluice('fleet', receipts, '--allowed-receipts', allowed, '--release', release, ...more);
const promote = (...more: readonly string[]) =>
  sluice('promote', release, '--receipts', receipts, '--allowed-receipts', allowed, '--key', at('waves'), ...more);
async function states(): Promise<string> {
  const { nodes } = JSON.parse((await fleet('-o', 'json')).stdout) as {
    nodes: { node: string; state: string; why: string | null }[];
  };
  return nodes
    .toSorted((a, b) => (a.node < b.node ? -1 : 1))
    .map(({ node, state, why }) => `${node} ${state}${why === null ? '' : `: ${why}`}`)
    .join(' | ');
}

beforeEach(async () => {
  for (const dir of [bundle, release, receipts]) rmSync(dir, { recursive: true, force: true });
  mkdirSync(receipts);
  cpSync(join(root, 'examples/10-ipvs/out'), bundle, { recursive: true });
  // The mark of a complete directory is not in Git; in a work tree nothing asks for it.
  rmSync(join(bundle, '.sluice-complete'), { force: true });
  execFileSync('/usr/bin/git', ['init', '-q', bundle]);
  writeFileSync(
    at('waves.yaml'),
    'apiVersion: sluice.dev/v1alpha1\nkind: Waves\nwaves: [{name: canary, nodes: [node-1]}, {name: others, nodes: rest}]\n',
  );
  writeFileSync(allowed, lineOf('node-1') + lineOf('node-2'));
  const made = await sluice(
    'release',
    bundle,
    '--serial',
    'auto',
    '--source',
    'c'.repeat(40),
    '--wave',
    at('waves.yaml'),
    '-o',
    release,
  );
  if (made.status !== 0) throw new Error(made.stderr);
});

describe('sluice fleet', async () => {
  test('believes the newest receipt of each node', async () => {
    say('node-1', 'confirmed', { number: 11 });
    say('node-1', 'rolled-back', { number: 9 });
    say('node-2', 'rolled-back', { because: 'health failed: web' });
    expect(await states()).toBe('node-1 runs | node-2 rolled-back: health failed: web');
    expect(await fleet()).toMatchObject({
      status: 1,
      stdout: expect.stringMatching(/release 1 of \S+: 1 of 2 nodes run it\n[^]*node-2 +2 +rolled back/),
    });
  });

  test('ends with 0 when all is well, in every form', async () => {
    for (const node of ['node-1', 'node-2']) say(node, 'same');
    for (const form of ['text', 'json', 'html']) expect((await fleet('-o', form)).status).toBe(0);
  });

  test.each([
    ['in the folder of receipts', 'receipts/fleet.html', ''],
    ['beside it', 'fleet.html', 'receipts/'],
    ['far from it', 'pages/today/fleet.html', '../../receipts/'],
  ])('its page %s links to receipts by the way from there', async (_title, page, prefix) => {
    mkdirSync(at('pages/today'), { recursive: true });
    mkdirSync(join(receipts, 'rack 1'));
    say('node-1', 'confirmed', { number: 11, file: `rack 1/${receiptFile({ node: 'node-1', number: 11 })}` });
    expect(await fleet('-o', 'html', '--out', at(page))).toMatchObject({ status: 1, stdout: '' });
    const text = readFileSync(at(page), 'utf8');
    const links = [...text.matchAll(/<a href="([^"]*)">node/g)].map(([, href]) => href ?? '');
    expect(links).toEqual([`${prefix}rack%201/${receiptFile({ node: 'node-1', number: 11 })}`]);
    expect(existsSync(new URL(links[0] ?? '', pathToFileURL(at(page))))).toBe(true);
    expect(text).not.toContain(scratch);
  });

  test('says where it cannot write', async () => {
    const refused = await fleet('-o', 'html', '--out', at('nowhere/fleet.html'));
    expect(refused).toMatchObject({ status: 2, stderr: expect.stringContaining('[OUTPUT_UNWRITABLE]') });
  });

  test.each([
    [
      'another node signed',
      () => say('node-1', 'confirmed', { by: 'node-2' }),
      'its signature is not from a key of this node',
    ],
    [
      'a stranger signed',
      () => say('node-1', 'confirmed', { by: 'mallory' }),
      'its signature is not from a key of this node',
    ],
    [
      'was signed for something else',
      () => say('node-1', 'confirmed', { namespace: 'sluice-release' }),
      'its signature is not from a key of this node',
    ],
    ['has no signature', () => rmSync(`${say('node-1', 'confirmed')}.sig`), 'its signature is missing'],
    [
      'was changed',
      () => appendFileSync(say('node-1', 'rolled-back'), ' '),
      'its signature is not from a key of this node',
    ],
    [
      'has the name of a newer one',
      () => say('node-1', 'confirmed', { file: receiptFile({ node: 'node-1', number: 99 }) }),
      'its node or number does not match its file name',
    ],
    [
      'has the name of another node',
      () => say('node-2', 'confirmed', { by: 'node-1', file: receiptFile({ node: 'node-1', number: 10 }) }),
      'its node or number does not match its file name',
    ],
    [
      'is a link',
      () => {
        const path = say('node-1', 'confirmed');
        renameSync(path, at('elsewhere'));
        symlinkSync(at('elsewhere'), path);
      },
      'no receipt',
    ],
    [
      'is larger than any',
      () => writeFileSync(say('node-1', 'confirmed'), ' '.repeat(20_000)),
      'the file cannot be read',
    ],
  ] as const)('does not believe a receipt that %s', async (_title, put, why) => {
    put();
    expect(await states()).toMatch(new RegExp(`^node-1 silent: .*${why} [|] node-2 silent: no receipt$`));
  });

  test('goes back to an older receipt where newer files do not count, and says so', async () => {
    say('node-1', 'confirmed', { number: 5 });
    say('node-1', 'held', { number: 6, by: 'mallory' });
    expect(await states()).toContain('node-1 runs: newer files do not count: number 6');
  });

  test('takes a list of as many nodes as a large cluster has', async () => {
    const keyOf = (n: number): string => {
      const [, blob = ''] = readFileSync(at('node-1.pub'), 'utf8').split(' ');
      const bytes = Buffer.from(blob, 'base64');
      bytes.writeUInt32BE(n, bytes.length - 4);
      return bytes.toString('base64');
    };
    for (let n = 0; n < 3_000; n++)
      appendFileSync(allowed, `other-${n} namespaces="sluice-receipt" ssh-ed25519 ${keyOf(n)}\n`);
    say('node-1', 'confirmed');
    const { status, stdout } = await fleet('-o', 'json');
    expect(status).toBe(1);
    const { nodes } = JSON.parse(stdout) as { nodes: { node: string; state: string }[] };
    expect(nodes).toHaveLength(3_002);
    expect(nodes.filter(({ state }) => state === 'runs')).toMatchObject([{ node: 'node-1' }]);
  });

  test('says which node refused an update of endpoints, and why, and no wave opens behind it', async () => {
    await promote();
    say('node-1', 'refused', {
      release: { cluster: 'ipvs', serial: 1, digest: 'e'.repeat(64), version: '8'.repeat(16) },
      codes: ['RELEASE_ENDPOINTS_ONLY'],
      because: 'Cannot accept the update with signatures of endpoint keys only: it does more',
    });
    const why = 'other content of serial 1, such as an endpoint update: Cannot take it by the signatures';
    expect(await states()).toContain(`node-1 refused: ${why}`);
    expect((await fleet()).stdout).toContain(why);
    expect(await promote('--quorum', '1')).toMatchObject({
      status: 1,
      stderr: expect.stringContaining(`node-1 is refusing: ${why}`),
    });
  });

  test('names nodes that nobody listed, and takes neither their word nor a bad list', async () => {
    say('node-3', 'held', { by: 'mallory' });
    expect((await fleet()).stdout).toContain('not in allowed_receipts, so no evidence: node-3');
    writeFileSync(allowed, 'node-1 ssh-ed25519 AAAA\n');
    expect(await fleet()).toMatchObject({ status: 2, stderr: expect.stringContaining('SIGNERS_INVALID') });
  });
});

describe('sluice promote', async () => {
  let signatureBefore = '';
  const line = (): string | undefined => readFileSync(join(release, 'waves-open.yaml'), 'utf8').split('\n').at(-2);

  test('opens wave after wave, one line and its signature each, and stops in between', async () => {
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

  test('wants to know how nodes are once a wave is open', async () => {
    await sluice('promote', release);
    expect(await sluice('promote', release)).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('WAVE_NOT_READY'),
    });
  });

  test('without a key no signature of another line stays', async () => {
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
      'was killed between the line and its signature',
      async () => writeFileSync(join(release, 'waves-open.yaml.sig'), signatureBefore),
    ],
    ['had no key', async () => rmSync(join(release, 'waves-open.yaml.sig'))],
  ] as const)('finishes a promotion that %s', async (_title, spoil) => {
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

  test('opens no more than its nodes allow where somebody without a key wrote the line', async () => {
    await promote();
    const opening = join(release, 'waves-open.yaml');
    writeFileSync(opening, readFileSync(opening, 'utf8').replace('open: 1', 'open: 2'));
    expect(await promote()).toMatchObject({ status: 1, stderr: expect.stringContaining('node-1 is silent') });
  });

  describe('in three waves, where somebody without a key wrote that all are open', () => {
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

    test('goes on from the wave that is signed', async () => {
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

    test('goes as far as all nodes of each wave say where nothing is signed', async () => {
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

    test('and no receipts are given, opens the first wave alone', async () => {
      jump();
      unsigned();
      expect(await sluice('promote', release, '--key', at('waves'))).toMatchObject({ status: 0 });
      expect(line()).toBe('open: 1');
    });

    test('a signature over a line of another form is one, too', async () => {
      writeFileSync(opening, `# by hand\n${readFileSync(opening, 'utf8').replace(/open: .*/, 'open: 2')}`);
      writeFileSync(`${opening}.sig`, sign(readFileSync(opening, 'utf8'), 'waves', 'sluice-wave'));
      expect(await promote('--quorum', '50')).toMatchObject({ stdout: expect.stringContaining('wave 3 of 3') });
    });
  });

  test('signs nothing beside another release that was written while the signer was asked', async () => {
    const slow = at('slow');
    if (!existsSync(slow)) execFileSync('/usr/bin/ssh-keygen', ['-q', '-t', 'ed25519', '-N', 'secret', '-f', slow]);
    writeFileSync(at('ask'), `#!/bin/sh\necho '# another' >> '${release}/SHA256SUMS'\necho secret\n`, { mode: 0o755 });
    vi.stubEnv('SSH_ASKPASS', at('ask'));
    vi.stubEnv('SSH_ASKPASS_REQUIRE', 'force');
    try {
      const refused = await sluice('promote', release, '--key', slow);
      expect(refused).toMatchObject({ status: 2, stdout: '', stderr: expect.stringContaining('[RELEASE_INVALID]') });
      expect(refused.stderr).toContain('another release was written there meanwhile');
    } finally {
      vi.unstubAllEnvs();
    }
    expect(readdirSync(release).filter((name) => name.startsWith('waves-open'))).toEqual([]);
  });

  test('with all waves open ends with 1 while a node says no', async () => {
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

  describe('where an update of endpoints stands in the place of its release', async () => {
    beforeEach(async () => {
      await promote();
      say('node-1', 'confirmed');
      const made = await sluice('release', bundle, '--endpoints', '--source', 'd'.repeat(40), '-o', release);
      if (made.status !== 0) throw new Error(made.stderr);
    });

    test('and only keys for endpoints have signed it, opens nothing and says what to do', async () => {
      await sluice('sign', release, '--key', at('mallory'), '--endpoints');
      const refused = await promote();
      expect(refused).toMatchObject({ status: 2, stdout: '' });
      expect(refused.stderr).toContain('it contains revision 1 of release 1');
      expect(refused.stderr).toMatch(/does not use waves \[WAVES_INVALID\][^]*Restore release 1/);
      expect(() => readFileSync(join(release, 'waves-open.yaml'))).toThrow('ENOENT');
    });

    test('and signers of releases have signed it, too, it has waves as any other', async () => {
      await sluice('sign', release, '--key', at('mallory'), '--endpoints');
      await sluice('sign', release, '--key', at('waves'), '--as', 'signer');
      expect(await promote()).toMatchObject({ status: 0, stdout: expect.stringContaining('wave 1 of 2') });
    });
  });

  test('the opening of an older release counts for nothing', async () => {
    await promote();
    say('node-1', 'confirmed');
    await promote();
    const before = readFileSync(join(release, 'waves-open.yaml'), 'utf8');
    await sluice(
      'release',
      bundle,
      '--serial',
      'auto',
      '--source',
      'd'.repeat(40),
      '--wave',
      at('waves.yaml'),
      '-o',
      release,
    );
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
      'this release has none',
    ],
    [
      'files that are not those of the release',
      async () => writeFileSync(join(release, 'waves.yaml'), 'waves: 7\n'),
      'another digest',
    ],
    ['a key that is not there', async () => renameSync(at('waves'), at('waves.away')), 'ssh-keygen failed'],
  ] as const)('refuses %s, and nothing is opened', async (_title, spoil, expected) => {
    await spoil();
    expect(await promote()).toMatchObject({ status: 2, stderr: expect.stringContaining(expected) });
    expect(() => readFileSync(join(release, 'waves-open.yaml'))).toThrow('ENOENT');
  });
});
