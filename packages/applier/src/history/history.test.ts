import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { emptyTable } from '@sluice/bundle';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { limits } from '../limits.ts';
import type { NodeState } from '../rollout/state.ts';
import { History } from './history.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(`${tmpdir()}/sluiced-history-`);
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const open = (): Promise<History> => History.open(directory, 'node-a', () => new Date(0));
const state = (rule: string): NodeState => ({
  families: {
    ipv4: {
      filter: emptyTable,
      nat: { chains: new Map([['KUBE-SERVICES', [rule]]]), jumps: ['-A OUTPUT -j KUBE-SERVICES'] },
    },
  },
  sysctls: new Map([['net.ipv4.ip_forward', 1]]),
  conntrackHashSize: 65536,
});
const [one, two] = [state('-A KUBE-SERVICES -j RETURN'), state('-A KUBE-SERVICES -j ACCEPT')];
const intent = (version: string): Parameters<History['begin']>[0] => ({
  from: 0,
  version,
  creates: {},
  sysctls: new Map([['net.ipv4.ip_forward', 0]]),
});

test('what was confirmed stands after a restart, with everything that it holds', async () => {
  const history = await open();
  await history.adopt({ families: {}, sysctls: new Map() });
  await history.begin(intent('aaaa'), one);
  await history.confirm('aaaa', one);
  const again = await open();
  expect(again.standing).toEqual({ number: 1, version: 'aaaa', state: one });
  expect(again.open).toBeUndefined();
  expect(again.originals).toEqual(new Map([['net.ipv4.ip_forward', 0]]));
});

test('a change that was begun is open after a restart, and what stood before it stands', async () => {
  const history = await open();
  await history.adopt({ families: {}, sysctls: new Map() });
  const creates = { ipv4: { filter: [], nat: ['KUBE-SERVICES'] } };
  await history.begin({ ...intent('aaaa'), creates }, one);
  const again = await open();
  expect(again.open).toEqual({ ...intent('aaaa'), creates });
  expect(again.standing?.number).toBe(0);
});

test('what an open change leads to is on the disk before it begins, and is no generation to go back to', async () => {
  const history = await open();
  await history.adopt({ families: {}, sysctls: new Map() });
  await history.begin(intent('aaaa'), one);
  expect(readdirSync(`${directory}/generations`).toSorted()).toEqual(['0', '1']);
  expect(await (await open()).generation(1)).toBeUndefined();
  await history.abandon('health failed', 'bundle');
  await history.begin(intent('bbbb'), two);
  await history.confirm('bbbb', two);
  expect((await open()).standing).toEqual({ number: 1, version: 'bbbb', state: two });
});

test('a generation has the native text that a person loads by hand', async () => {
  const history = await open();
  await history.confirm('aaaa', one);
  const file = (name: string): string => readFileSync(`${directory}/generations/1/${name}`, 'utf8');
  expect(file('iptables.rules')).toBe(
    '*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -j RETURN\n-I OUTPUT 1 -j KUBE-SERVICES\nCOMMIT\n',
  );
  expect(file('sysctl.conf')).toBe('net.ipv4.ip_forward = 1\n');
});

test('a bundle that failed is remembered as bad; one during which the process ended only after the third time', async () => {
  const history = await open();
  await history.adopt({ families: {}, sysctls: new Map() });
  await history.begin(intent('bad'), one);
  await history.abandon('health failed', 'bundle');
  expect(history.quarantined('bad')).toBe('health failed');
  for (let times = 1; times <= limits.interruptedMax; times++) {
    expect(history.quarantined('unlucky')).toBeUndefined();
    await history.begin(intent('unlucky'), one);
    await history.abandon('the process ended', 'process');
  }
  expect((await open()).quarantined('unlucky')).toBe('the process ended');
});

test('old generations go, the first and the newest stay, and what a crash left half written is swept', async () => {
  const history = await open();
  await history.adopt({ families: {}, sysctls: new Map() });
  mkdirSync(`${directory}/generations/99`);
  mkdirSync(`${directory}/generations/7.tmp`);
  for (let i = 0; i < limits.generationsKept + 5; i++) await history.confirm(`v${i}`, i % 2 === 0 ? one : two);
  const kept = readdirSync(`${directory}/generations`)
    .map(Number)
    .toSorted((a, b) => a - b);
  expect(kept).toEqual([0, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
});

test.each([
  ['a schema of another Sluice', '{"schema":2}', 'has schema 2'],
  ['a torn file', '{"schema":1,"node":"node-a","cur', 'is damaged'],
  ['an empty file', '', 'is damaged'],
  ['a file without what it needs', '{"schema":1,"node":"node-a"}', 'is damaged at backend'],
])('%s is refused and left as it is', async (_title, text, why) => {
  writeFileSync(`${directory}/state.json`, text);
  await expect(open()).rejects.toThrow(why.replace(' at backend', ''));
  expect(readFileSync(`${directory}/state.json`, 'utf8')).toBe(text);
});

test('a directory of another node is refused', async () => {
  await (await open()).confirm('aaaa', one);
  await expect(History.open(directory, 'node-b', () => new Date(0))).rejects.toThrow('belongs to node node-a');
});

test('a generation that was damaged on disk is not used, and the node waits for a person who chooses another', async () => {
  const history = await open();
  await history.confirm('aaaa', one);
  await history.confirm('bbbb', two);
  const path = `${directory}/generations/2/program.json`;
  writeFileSync(path, readFileSync(path, 'utf8').replace('ACCEPT', 'DROP'));
  const again = await open();
  expect(again.standing).toBeUndefined();
  expect(again.held).toContain('is not what was written');
  const target = await again.generation(1);
  expect(target && (await again.choose(target)).version).toBe('aaaa');
  expect((await open()).held).toBeUndefined();
});

test('rules are never written to another store than the one that holds them', async () => {
  const history = await open();
  await history.pin('nft');
  await history.confirm('aaaa', one);
  await expect(history.pin('legacy')).rejects.toThrow("the node's rules are in the nft store");
});
