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
import { afterAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { sluice } from '../in-process.fixture.ts';

const root = join(import.meta.dirname, '../../../../..');
const scratch = mkdtempSync(join(tmpdir(), 'sluice-fleet-'));
const at = (...names: readonly string[]): string => join(scratch, ...names);
const [bundle, release, receipts, allowed] = [at('bundle'), at('release'), at('receipts'), at('allowed_receipts')];
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
for (const name of ['node-1', 'node-2', 'mallory', 'waves'])
  execFileSync('/usr/bin/ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', at(name)]);

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
  /** The name of the file; default: that of the receipt. */
  readonly file?: string;
}
/** Writes a signed receipt to the folder. */
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
  // `.sluice-complete` is not in Git, and a work tree does not need it.
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
  test('says who serves each node, and how many', async () => {
    say('node-1', 'confirmed', { serving: { mode: 'nftables', kubeProxy: 'kept-away' } });
    say('node-2', 'confirmed', { serving: { mode: 'iptables', kubeProxy: 'runs' } });
    const text = (await fleet()).stdout;
    expect(text).toContain('served by: 1 iptables, kube-proxy runs; 1 nftables\n');
    expect(text).toMatch(/^node-1 +1 +runs +nftables +2 8{16} /m);
    expect(text).toMatch(/^node-2 +2 +runs +iptables, kube-proxy runs +2 8{16} /m);
    say('node-1', 'removed', { number: 11, serving: { mode: null, kubeProxy: 'runs' } });
    say('node-2', 'confirmed', { number: 11 });
    expect(JSON.parse((await fleet('-o', 'json')).stdout)).toMatchObject({
      serving: { 'kube-proxy': 1, 'not known': 1 },
      nodes: [{ node: 'node-1', receipt: { serving: { mode: null, kubeProxy: 'runs' } } }, { node: 'node-2' }],
    });
    const page = (await fleet('-o', 'html')).stdout;
    expect(page).toContain('<p class="serving">served by: 1 kube-proxy; 1 not known</p>');
    expect(page).toContain('<td class="serving">kube-proxy</td>');
  });

  test('uses the newest receipt of each node', async () => {
    say('node-1', 'confirmed', { number: 11 });
    say('node-1', 'rolled-back', { number: 9 });
    say('node-2', 'rolled-back', { because: 'health failed: web' });
    expect(await states()).toBe('node-1 runs | node-2 rolled-back: health failed: web');
    expect(await fleet()).toMatchObject({
      status: 1,
      stdout: expect.stringMatching(/release 1 of \S+: 1 of 2 nodes run it\n[^]*node-2 +2 +rolled back/),
    });
  });

  test('exits with 0 for a healthy fleet, in every format', async () => {
    for (const node of ['node-1', 'node-2']) say(node, 'same');
    for (const form of ['text', 'json', 'html']) expect((await fleet('-o', form)).status).toBe(0);
  });

  test.each([
    ['in the folder of receipts', 'receipts/fleet.html', ''],
    ['beside it', 'fleet.html', 'receipts/'],
    ['in another tree', 'pages/today/fleet.html', '../../receipts/'],
  ])('links receipts relative to a page %s', async (_title, page, prefix) => {
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

  test('reports an output that cannot be written', async () => {
    const refused = await fleet('-o', 'html', '--out', at('nowhere/fleet.html'));
    expect(refused).toMatchObject({ status: 2, stderr: expect.stringContaining('[OUTPUT_UNWRITABLE]') });
  });

  test.each([
    [
      'is signed by another node',
      () => say('node-1', 'confirmed', { by: 'node-2' }),
      'its signature is not from a key of this node',
    ],
    [
      'is signed by an unknown key',
      () => say('node-1', 'confirmed', { by: 'mallory' }),
      'its signature is not from a key of this node',
    ],
    [
      'is signed for another namespace',
      () => say('node-1', 'confirmed', { namespace: 'sluice-release' }),
      'its signature is not from a key of this node',
    ],
    ['has no signature', () => rmSync(`${say('node-1', 'confirmed')}.sig`), 'its signature is missing'],
    [
      'was modified',
      () => appendFileSync(say('node-1', 'rolled-back'), ' '),
      'its signature is not from a key of this node',
    ],
    [
      'has the file name of a newer one',
      () => say('node-1', 'confirmed', { file: receiptFile({ node: 'node-1', number: 99 }) }),
      'its node or number does not match its file name',
    ],
    [
      'has the file name of another node',
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
    ['is too large', () => writeFileSync(say('node-1', 'confirmed'), ' '.repeat(20_000)), 'the file cannot be read'],
  ] as const)('ignores a receipt that %s', async (_title, put, why) => {
    put();
    expect(await states()).toMatch(new RegExp(`^node-1 silent: .*${why} [|] node-2 silent: no receipt$`));
  });

  test('falls back to an older receipt when newer ones are invalid, with the reason', async () => {
    say('node-1', 'confirmed', { number: 5 });
    say('node-1', 'held', { number: 6, by: 'mallory' });
    expect(await states()).toContain('node-1 runs: newer receipts are ignored: number 6');
  });

  test('reads the keys of 3,000 nodes', async () => {
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

  test('reports a node that refused an endpoint update, and opens no further wave', async () => {
    await promote();
    say('node-1', 'refused', {
      release: { cluster: 'ipvs', serial: 1, digest: 'e'.repeat(64), version: '8'.repeat(16) },
      codes: ['RELEASE_ENDPOINTS_ONLY'],
      because: 'Cannot accept the update with signatures of endpoint keys only: it does more',
    });
    const why = 'other content of serial 1, such as an endpoint update: Cannot accept the update with signatures';
    expect(await states()).toContain(`node-1 refused: ${why}`);
    expect((await fleet()).stdout).toContain(why);
    expect(await promote('--quorum', '1')).toMatchObject({
      status: 1,
      stderr: expect.stringContaining(`node-1 is refusing: ${why}`),
    });
  });

  test('lists nodes that are not in allowed_receipts, ignores their receipts, and refuses an invalid list', async () => {
    say('node-3', 'held', { by: 'mallory' });
    expect((await fleet()).stdout).toContain('ignored receipts of nodes that are not in allowed_receipts: node-3');
    writeFileSync(allowed, 'node-1 ssh-ed25519 AAAA\n');
    expect(await fleet()).toMatchObject({ status: 2, stderr: expect.stringContaining('SIGNERS_INVALID') });
  });
});

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
