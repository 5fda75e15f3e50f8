import { expect, test } from 'vitest';
import { limits } from '../../limits.ts';
import { OwnProcesses } from './own-processes.ts';

const restore = { file: '/usr/sbin/iptables-nft-restore', changesTables: true };
const name = 'iptables-nft-re';

test('remembers the newest of our own processes', () => {
  const own = new OwnProcesses(true, () => 0);
  for (let pid = 1; pid <= limits.ownProcessesKept + 3; pid++) own.add(pid, restore);
  expect([3, 4, limits.ownProcessesKept + 3].map((pid) => own.made(pid, name))).toEqual([false, true, true]);
});

test('attributes one change to each of our writers by name where process ids differ', () => {
  const own = new OwnProcesses(false, () => 0);
  own.add(1, restore);
  own.add(2, restore);
  expect(own.made(4711, 'nft'), 'another program').toBe(false);
  expect([own.made(4711, name), own.made(4712, name), own.made(4713, name)]).toEqual([true, true, false]);
});

test('attributes no change to readers or old writers', () => {
  let nowMs = 0;
  const own = new OwnProcesses(false, () => nowMs);
  own.add(1, { file: '/usr/sbin/iptables-nft' });
  expect(own.made(4711, 'iptables-nft')).toBe(false);
  own.add(1, { file: restore.file });
  expect(own.made(4711, name)).toBe(false);
  own.add(2, restore);
  nowMs = limits.ownChangeReportedMs;
  expect(own.made(4712, name)).toBe(false);
});

test.each([
  ['failed', 1],
  ['was killed', undefined],
])('attributes no change to a writer that %s, only to another one of its name', (_title, exitCode) => {
  const own = new OwnProcesses(false, () => 0);
  own.add(1, restore)?.(exitCode);
  expect(own.made(4711, name), 'a foreign change').toBe(false);
  own.add(2, restore)?.(0);
  own.add(3, restore)?.(exitCode);
  expect([own.made(4712, name), own.made(4713, name)]).toEqual([true, false]);
});
