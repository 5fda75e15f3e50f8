// @module-tag test
import { atTier } from '@sluice/testing';
import { beforeEach, expect, test, vi } from 'vitest';
import { needKernel } from '../netns/privileges.ts';
import { codesOf, isServed, runCase } from './harness.ts';

/** The doctor on nodes of public tickets, with packets that show what works there. */

/** A case waits for clients that give up after a second each, and asks the doctor up to fourteen times. */
vi.setConfig({ testTimeout: 180_000 });
beforeEach(needKernel);

const modes = atTier<readonly string[]>({ quick: ['iptables'], all: ['iptables', 'nftables'] });

test.each(modes)('06, mode %s: NOTRACK of NodeLocal DNSCache is no cause, as its listener answers', async (mode) => {
  const { asked, diagnoses } = await runCase('case-06', { M: mode });
  expect(asked.map(isServed)).toEqual([true, true, true]);
  expect(diagnoses.map(codesOf)).toEqual([[], []]);
  expect(diagnoses.flatMap(({ notes }) => notes.map(({ code }) => code))).toContain('ADDRESS_ON_INTERFACE');
});

test.each(modes)('08, mode %s: a default-deny INPUT drops packets to an endpoint of the node', async (mode) => {
  const { asked, diagnoses } = await runCase('case-08', { M: mode });
  expect(asked.map(isServed)).toEqual([true, true, false, false, false, false]);
  expect(diagnoses.map(codesOf)).toEqual([[], ['FOREIGN_DROP'], ['FOREIGN_DROP']]);
  const reject = expect.stringContaining('-A INPUT -j REJECT --reject-with icmp-host-prohibited');
  expect(diagnoses.slice(1).map(({ cause }) => cause?.evidence[0])).toEqual([reject, reject]);
});

test('09: forms of host firewalls before the translation are followed', async () => {
  const { asked, diagnoses } = await runCase('case-09', { M: 'iptables' });
  expect(asked.map(isServed)).toEqual(asked.map(() => false));
  expect(diagnoses.map(codesOf)).toEqual(Array.from({ length: 7 }, () => ['FOREIGN_DROP']));
});

test('10: replies that a bridge passes on without iptables are the cause, not the endpoint', async () => {
  const { diagnoses } = await runCase('case-10');
  expect(diagnoses.map(({ cause }) => cause?.code)).toEqual(Array.from({ length: 3 }, () => 'BRIDGE_NOT_FILTERED'));
  expect(diagnoses.flatMap(codesOf)).not.toContain('?ENDPOINT_SILENT');
  expect(diagnoses[0]?.cause?.fix).toBe('sysctl -w net.bridge.bridge-nf-call-iptables=1');
});

test('16: a last endpoint of the node that ends and serves is no cause', async () => {
  const { diagnoses, output } = await runCase('case-16');
  expect(diagnoses.map(codesOf)).toEqual([[]]);
  expect(output).toContain('100 % to 10.244.1.81:443');
});

test('17: a jump that an earlier kube-proxy left in the other store is a note in mode nftables', async () => {
  const { asked, diagnoses } = await runCase('case-17');
  expect(asked.map(isServed)).toEqual([true]);
  expect(diagnoses.map(codesOf)).toEqual([[]]);
  expect(diagnoses[0]?.notes.map(({ code }) => code)).toContain('KUBE_PROXY_LEFTOVERS');
});

test('27: SYNs that are older than the Service are stale connections', async () => {
  const { diagnoses } = await runCase('case-27');
  expect(diagnoses.map(({ cause }) => cause?.code)).toEqual(['STALE_CONNECTIONS', 'STALE_CONNECTIONS']);
  expect(diagnoses[0]?.cause?.fix).toBe('conntrack -D -p tcp --orig-dst 203.0.113.60 --orig-port-dst 8080');
});

test('18: a rule that iptables cannot print is named, and no rule of Sluice is called missing', async () => {
  const { asked, diagnoses, calls } = await runCase('case-18');
  expect(asked.map(isServed)).toEqual([true]);
  expect(diagnoses.map(codesOf)).toEqual([['?TABLE_NOT_PRINTED']]);
  expect(diagnoses[0]?.cause?.evidence.join(' ')).toMatch(/ip filter INPUT .*established.* a table of its own/);
  expect(diagnoses[0]?.unread.map(({ what }) => what)).toEqual(['rules of table ipv4 filter in store nft']);
  const parity = calls.find(({ args }) => args[0] === 'parity');
  expect(parity).toMatchObject({ exitCode: 2, json: { result: 'incomplete', differences: [] } });
  const saved = calls.find(({ args }) => args.includes('--from'));
  expect(saved?.stdout).toContain("Table `filter' is incompatible, use 'nft' tool.");
});
