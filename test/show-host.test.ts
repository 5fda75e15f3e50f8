import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { HostFacts } from '@sluice/bundle';
import { programPath } from '@sluice/testing';
import { execaSync } from 'execa';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { printHostFacts } from '../packages/bundle/src/host-facts.fixture.ts';

/** Mode ipvs with the facts of a host; netns/observe.test.ts compares modes iptables on the kernel. */

const bundle = join(import.meta.dirname, '..', 'examples/10-ipvs/out');
const facts: HostFacts = {
  node: 'node-1',
  kernelRelease: '5.4.0',
  addresses: { ipv4: ['127.0.0.1', '192.0.2.11', '192.0.2.77'], ipv6: ['::1', 'fe80::1', 'fd00::77'] },
  tcpBeLiberal: false,
  knowsBpf: true,
  providesKubeChains: true,
};

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-show-'));
  writeFileSync(join(dir, 'host.yaml'), printHostFacts(facts));
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const show = (...more: readonly string[]) =>
  execaSync(programPath('sluice'), ['show', bundle, '--node', 'node-1', ...more], { reject: false });
const withFacts = (...more: readonly string[]) => show('--host', join(dir, 'host.yaml'), ...more);

test('virtual servers have each address of the machine except loopback and link-local ones', () => {
  const { stdout, stderr } = withFacts('--tool', 'ipvs');
  expect(stderr).toBe('');
  const nodePorts = [...stdout.matchAll(/^-A -\S+ (\S+):3\d{4} /gm)].map(([, address]) => address);
  expect(new Set(nodePorts)).toEqual(new Set(['192.0.2.11', '192.0.2.77', '[fd00::77]']));
});

test.each([
  ['5.4.0', 'net.ipv4.vs.conn_reuse_mode = 0'],
  ['6.1.0', undefined],
])('lines of sysctl.conf are those for the kernel %s', (kernelRelease, line) => {
  writeFileSync(join(dir, 'kernel.yaml'), printHostFacts({ ...facts, kernelRelease }));
  const { stdout, stderr } = show('--host', join(dir, 'kernel.yaml'), '--tool', 'sysctl');
  expect(stderr).toBe('');
  expect(stdout).not.toContain('@kernel');
  expect(stdout.split('\n').find((one) => one.includes('conn_reuse_mode'))).toBe(line);
});

test('without the facts, names each value once, and only those of the shown rules', () => {
  const named = (...more: readonly string[]) =>
    [...show(...more).stderr.matchAll(/^note: only the node knows ([^:]+):/gm)].map(([, what]) => what);
  expect(named()).toEqual(['${host.nodePortAddresses}', 'the kernel release', "the host's own addresses"]);
  expect(named('--tool', 'sysctl')).toEqual(['the kernel release']);
  expect(named('--tool', 'iptables')).toEqual([]);
});

test.each([
  ['of another node', printHostFacts({ ...facts, node: 'node-2' }), 'the facts are of node node-2'],
  ['of a newer format', printHostFacts(facts).replace('format: 1', 'format: 2'), 'format is 2'],
  ['larger than any', '#'.repeat(1024 * 1024 + 1), 'larger than'],
])('refuses facts %s', (_title, text, why) => {
  writeFileSync(join(dir, 'bad.yaml'), text);
  const { stdout, stderr, exitCode } = show('--host', join(dir, 'bad.yaml'));
  expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 });
  expect(stderr).toContain('HOST_FACTS_INVALID');
  expect(stderr).toContain(why);
});

test('reports a missing file', () => {
  expect(show('--host', join(dir, 'none.yaml')).stderr).toContain('none.yaml: it does not exist [HOST_FACTS_INVALID]');
});
