// @module-tag test
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import {
  parityNamespace,
  type ParityCertificate,
  type ParityReport,
  printCertificate,
  readCertificate,
  readParityReport,
} from '@sluice/bundle';
import { atTier, makeKey, programPath, signBy } from '@sluice/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { AdoptNode } from './adopt-node.ts';
import { addPods } from './clients.ts';
import { needBackend, needKernel } from './privileges.ts';
import { until } from './until.ts';

/** A node that runs kube-proxy and requires a certificate: what was observed, compared and certified by the programs themselves. */

let node: AdoptNode;
const at = (name: string): string => `${node.directory}/${name}`;
const sluice = async (...args: readonly string[]) => node.run([process.execPath, programPath('sluice'), ...args]);

beforeEach(needKernel);
beforeEach((context) => needBackend(context, 'nft'));
beforeEach(async () => {
  node = await AdoptNode.start();
  await addPods(node);
  await node.startKubeProxy('nft');
  const keys = { parity: makeKey(at('parity')), release: makeKey(at('releases')) };
  const lines = Object.entries(keys).map(([role, key]) => `${role}@example.com namespaces="sluice-${role}" ${key}\n`);
  writeFileSync(at('allowed_signers'), lines.join(''), { mode: 0o644 });
  node.writeConfig('nft', required());
  const services = { 'shop/web': [1, 2], 'shop/cart': [3] };
  writeBundle(at('rendered'), sampleBundle({ services, families: ['ipv4', 'ipv6'], mode: 'nftables' }));
});
afterEach(() => node.close());

/** The fields of a config that require a certificate. */
const required = (): string =>
  `signatures: {policy: none, allowedSigners: ${at('allowed_signers')}}\nrequireParity: true\nparityCertificate: ${at('parity.json')}\n`;

/** Observes the node and compares it with the bundle. */
async function compare(): Promise<ParityReport> {
  expect(await node.sluiced('observe', '-o', at('observed.json'))).toMatchObject({ exitCode: 0 });
  const { stdout } = await sluice('parity', at('observed.json'), at('rendered'), '-o', 'json');
  writeFileSync(at('report.json'), stdout);
  const report = readParityReport('report.json', stdout);
  expect(report).toMatchObject({ node: 'node-a' });
  return report as ParityReport;
}

/** Certifies the last comparison, with every difference accepted. */
async function certify(report: ParityReport): Promise<ParityCertificate> {
  const ids = report.differences.filter(({ cause }) => cause !== 'mode').map(({ id }) => id);
  const accepted = ids.length === 0 ? [] : [...ids.flatMap((id) => ['--accept', id]), '--by', 'alice@example.com'];
  const made = await sluice('certify', at('report.json'), '--key', at('parity'), '--out', node.directory, ...accepted);
  expect(made).toMatchObject({ exitCode: 0 });
  const certificate = readCertificate(readFileSync(at('node-a.parity.json'), 'utf8'));
  expect(certificate).toMatchObject({ node: 'node-a', exceptions: ids.toSorted().map((id) => ({ id })) });
  return certificate as ParityCertificate;
}

function place(certificate: ParityCertificate, key = 'parity', namespace: string = parityNamespace): void {
  const text = printCertificate(certificate);
  writeFileSync(at('parity.json'), text);
  writeFileSync(at('parity.json.sig'), signBy(at(key), namespace, text));
}

/** Whether anything of the node was touched. */
const everything = async (): Promise<string> => `${await node.rules('nft')}${(await node.tables()).join()}`;

/** @returns what the node says; everything of it is as before */
async function refusal(): Promise<string> {
  const before = await everything();
  const plain = await node.sluiced('adopt', '--manifest', node.manifest);
  const without = await node.sluiced('adopt', '--manifest', node.manifest, '--without-parity');
  for (const refused of [plain, without])
    expect(refused).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('NODE_PARITY_MISSING') });
  expect(await everything()).toBe(before);
  expect(await node.proxies()).toBe(1);
  expect(node.journal()?.current ?? null).toBeNull();
  return plain.stderr;
}

/** Each with what is wrong, and what the node says of it. */
const spoilt: readonly (readonly [string, (good: ParityCertificate) => void, string])[] = [
  [
    'expired',
    (good) => place({ ...good, issued: '2026-01-01T00:00:00Z', expires: '2026-01-01T01:00:00Z' }),
    'it expired at 2026-01-01T01:00:00Z',
  ],
  [
    'was issued in the future, as a clock that is behind sees it',
    (good) => place({ ...good, issued: '2099-01-01T00:00:00Z', expires: '2099-01-01T01:00:00Z' }),
    'the clock of this node is',
  ],
  [
    'is for another boot',
    (good) => place({ ...good, bootId: good.bootId.replace(/^./, (first) => (first === 'f' ? '0' : 'f')) }),
    'has booted since',
  ],
  ['is for another node', (good) => place({ ...good, node: 'node-b' }), 'it is for node node-b'],
  [
    'is for another bundle',
    (good) => place({ ...good, version: 'f'.repeat(16) }),
    'it is for version ffffffffffffffff',
  ],
  ['is about other rules', (good) => place({ ...good, observed: 'f'.repeat(64) }), 'have changed since'],
  ['is signed by a key for releases', (good) => place(good, 'releases'), 'not allowed for namespace sluice-parity'],
  ['is signed in another namespace', (good) => place(good, 'parity', 'sluice-release'), 'is for namespace'],
  [
    'was changed after it was signed',
    (good) => {
      place(good);
      writeFileSync(at('parity.json'), printCertificate({ ...good, version: 'f'.repeat(16) }));
    },
    'ssh-keygen refuses it',
  ],
  ['lacks its signature', (good) => (place(good), rmSync(at('parity.json.sig'))), 'parity.json.sig is missing'],
];

describe('a node that requires a parity certificate', { timeout: 120_000 }, () => {
  test('is moved with one that was made of what it runs', async () => {
    expect(await refusal()).toContain('parity.json is missing');
    place(await certify(await compare()));
    const moved = await node.sluiced('adopt', '--manifest', node.manifest);
    expect(moved).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('adopted') });
    expect(node.journal()).toMatchObject({ adoption: { goal: 'sluice', isStored: true } });
    const status = await node.sluiced('status', '-o', 'json');
    expect(JSON.parse(status.stdout)).toMatchObject({ adoption: { goal: 'sluice', hold: { kind: 'manifest' } } });
    // What would leave the node without any Service rules is refused.
    for (const args of [['cleanup'], ['rollback', '0', '--remove-all-services', '--yes']])
      expect(await node.sluiced(...args)).toMatchObject({
        stderr: expect.stringContaining('adopt --undo'),
      });
  });

  test.each(atTier({ quick: spoilt.slice(0, 4), all: spoilt }))(
    'takes no certificate that %s',
    async (_title, spoil, why) => {
      spoil(await certify(await compare()));
      expect(await refusal()).toContain(why);
    },
  );

  test('takes no certificate any more when kube-proxy has changed its rules since', async () => {
    place(await certify(await compare()));
    await node.tool(['iptables-nft', '-t', 'nat', '-A', 'KUBE-NODEPORTS', '-j', 'RETURN']);
    expect(await refusal()).toContain('have changed since');
  });
});

/** Each way in besides `adopt`. @returns what the node says */
const waysIn: readonly (readonly [string, number, () => Promise<{ exitCode: number | null; stderr: string }>])[] = [
  ['apply', 3, () => node.sluiced('apply', at('rendered'))],
  ['a dry run of it', 3, () => node.sluiced('apply', at('rendered'), '--dry-run')],
  ['the daemon', 143, () => daemonSays('NODE_PARITY_MISSING')],
  ['a boot', 0, () => node.sluiced('boot')],
  ['recover', 3, () => node.sluiced('recover')],
];

/** Runs `sluiced run` until it has logged a text. */
async function daemonSays(text: string): Promise<{ exitCode: number; stderr: string }> {
  const log = at('run.log');
  const argv = node.command('run', '--log-format', 'json').map((word) => `'${word}'`);
  const daemon = node.host.start(['/bin/sh', '-c', `exec ${argv.join(' ')} > ${log} 2>&1`]);
  const logged = (): string => (existsSync(log) ? readFileSync(log, 'utf8') : '');
  await until(`the daemon says ${text}`, async () => logged().includes(text));
  await daemon.stop();
  return { exitCode: 143, stderr: logged() };
}

describe.each(atTier({ quick: ['nftables'] as const, all: ['iptables', 'nftables'] as const }))(
  'where kube-proxy has stopped and left its rules, and Sluice in mode %s takes over',
  { timeout: 120_000 },
  (mode) => {
    beforeEach(async () => {
      rmSync(node.manifest);
      await until('kube-proxy has stopped', async () => (await node.proxies()) === 0);
      node.writeConfig('nft', `takeOver: kube-proxy\n${required()}`);
      const services = { 'shop/web': [1, 2], 'shop/cart': [3] };
      rmSync(at('rendered'), { recursive: true });
      writeBundle(at('rendered'), sampleBundle({ services, families: ['ipv4', 'ipv6'], mode }));
    });

    test('no way in changes a rule without a certificate', async () => {
      const before = await everything();
      const ends: object[] = [];
      for (const [way, , enter] of waysIn) {
        const { exitCode, stderr } = await enter();
        const namesLack = stderr.includes('NODE_PARITY_MISSING');
        const isUnchanged = (await everything()) === before;
        ends.push({ way, exitCode, namesLack, isUnchanged, generation: node.journal()?.current ?? null });
      }
      expect(ends).toEqual(
        waysIn.map(([way, exitCode]) => {
          const namesLack = way !== 'a boot' && way !== 'recover';
          return { way, exitCode, namesLack, isUnchanged: true, generation: null };
        }),
      );
    });

    test('a valid certificate opens apply', async () => {
      place(await certify(await compare()));
      expect(await node.sluiced('apply', at('rendered'))).toMatchObject({ exitCode: 0 });
      expect(await node.rules('nft')).not.toContain('KUBE-SVC-');
    });
  },
);

test('a rollback from generation 0 to Sluice needs a certificate where kube-proxy serves by now', {
  timeout: 120_000,
}, async () => {
  rmSync(node.manifest);
  await until('kube-proxy has stopped', async () => (await node.proxies()) === 0);
  node.writeConfig('nft', 'takeOver: kube-proxy\n');
  expect(await node.sluiced('apply', at('rendered'))).toMatchObject({ exitCode: 0 });
  expect(await node.sluiced('rollback', '0', '--remove-all-services', '--yes')).toMatchObject({ exitCode: 0 });
  await node.startKubeProxy('nft');
  node.writeConfig('nft', required());
  const before = await everything();
  expect(await node.sluiced('rollback', '1', '--yes')).toMatchObject({
    exitCode: 3,
    stderr: expect.stringContaining('NODE_PARITY_MISSING'),
  });
  expect(await everything()).toBe(before);
  place(await certify(await compare()));
  expect(await node.sluiced('rollback', '1', '--yes')).toMatchObject({ exitCode: 0 });
});

test('a node without requireParity compares by itself, with the program of its config', {
  timeout: 120_000,
}, async () => {
  writeFileSync(at('compare'), `#!/bin/sh\nexec ${process.execPath} ${programPath('sluice')} "$@"\n`, { mode: 0o755 });
  node.writeConfig('nft', `parityProgram: ${at('compare')}\n`);
  // shop/web has lost an endpoint since kube-proxy wrote its rules.
  const services = { 'shop/web': [1], 'shop/cart': [3] };
  writeBundle(at('rendered'), sampleBundle({ services, families: ['ipv4', 'ipv6'], mode: 'nftables' }));
  const before = await everything();
  const report = await compare();
  const ids = report.differences.filter(({ cause }) => cause !== 'mode').map(({ id }) => id);
  expect(ids.length).toBeGreaterThan(0);
  const refused = await node.sluiced('adopt', '--manifest', node.manifest);
  expect(refused).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('differences are not accepted') });
  expect(await everything()).toBe(before);
  const accepted = ids.flatMap((id) => ['--accept', id]);
  expect(await node.sluiced('adopt', '--manifest', node.manifest, ...accepted)).toMatchObject({ exitCode: 0 });
});
