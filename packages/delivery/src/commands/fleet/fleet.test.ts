import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { receiptFile } from '@sluice/bundle';
import { describe, expect, test } from 'vitest';
import { allowed, at, fleet, promote, receipts, say, scratch, states, withFleet } from './fleet.fixture.ts';

withFleet();

describe('sluice fleet', async () => {
  test('says who serves each node, and how many', async () => {
    say('node-1', 'confirmed', { serving: { mode: 'nftables', kubeProxy: 'kept-away' } });
    say('node-2', 'confirmed', { serving: { mode: 'iptables', kubeProxy: 'runs' } });
    const text = (await fleet()).stdout;
    expect(text).toContain('served by: 1 iptables, kube-proxy runs; 1 nftables\n');
    expect(text).toMatch(/^node-1 +1 +runs +nftables +2 8{16} /m);
    expect(text).toMatch(/^node-2 +2 +runs +iptables, kube-proxy runs +2 8{16} /m);
    expect(text).toContain('newest receipt: 2026-12-01T12:00:00Z\nnext: ');
    expect(text).not.toContain('DRAINED BY');
    say('node-1', 'removed', { number: 11, draining: 'operator', serving: { mode: null, kubeProxy: 'runs' } });
    say('node-2', 'confirmed', { number: 11 });
    expect(JSON.parse((await fleet('-o', 'json')).stdout)).toMatchObject({
      newest: '2026-12-01T12:00:00Z',
      next: expect.stringMatching(/^give node-1 the release again/),
      serving: { 'kube-proxy': 1, 'not known': 1 },
      nodes: [{ node: 'node-1', receipt: { serving: { mode: null, kubeProxy: 'runs' } } }, { node: 'node-2' }],
    });
    expect((await fleet()).stdout).toMatch(/ DRAINED BY [^]*^node-1 .* operator /m);
    const page = (await fleet('-o', 'html')).stdout;
    expect(page).toContain('<p class="verdict">Served by: 1 kube-proxy; 1 not known</p>');
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
