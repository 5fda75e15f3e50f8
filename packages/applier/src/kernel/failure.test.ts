import { expect, test } from 'vitest';
import type { FailureKind } from '../ports/failure.ts';
import { kindOf, mustPrint } from './failure.ts';

/** What the tools of Debian 12 print, and the loader, the shell and wrappers in their place. */
const printed: readonly (readonly [FailureKind, number, string])[] = [
  ['refused', 1, 'iptables-nft-restore: line 2 failed: No chain/target/match by that name.\n'],
  ['refused', 2, "iptables-nft-restore v1.8.9 (nf_tables): Chain 'FOO' does not exist\nError occurred at line: 3\n"],
  [
    'refused',
    4,
    'iptables-nft-restore v1.8.9 (nf_tables): \nline 2: RULE_APPEND failed (Invalid argument): rule in chain OUTPUT\n',
  ],
  ['refused', 1, 'iptables-restore: line 3 failed\n'],
  ['refused', 1, '/usr/sbin/ip6tables-nft: Bad rule (does a matching rule exist in that chain?).\n'],
  ['refused', 1, '/dev/stdin:1:18-23: Error: No such file or directory\nadd element inet sluice x { 1 }\n'],
  ['refused', 1, 'Error: Could not process rule: Too many open files in system\nadd element\n'],
  ['refused', 1, 'ipset v7.17: Error in line 1: The set with the given name does not exist\n'],
  ['refused', 1, 'ipset v7.17: Hash is full, cannot add more elements\n'],
  ['refused', 2, "Can't initialize ipvs: Protocol not available\n"],
  ['refused', 1, 'Service already exists\n'],
  ['refused', 1, 'RTNETLINK answers: File exists\nCommand failed -:1\n'],
  ['refused', 2, "conntrack v1.4.7 (conntrack-tools): `frob' unsupported protocol\n"],
  ['missing', 2, "iptables-nft-restore v1.8.9 (nf_tables): Couldn't load match `comment':No such file or directory\n"],
  [
    'missing',
    127,
    'iptables-nft: error while loading shared libraries: libxtables.so.12: cannot open shared object file\n',
  ],
  ['missing', 127, 'sh: 1: /usr/sbin/nft: not found\n'],
  ['missing', 126, ''],
  ['busy', 4, 'Another app is currently holding the xtables lock. Stopped waiting after 5s.\n'],
  ['busy', 4, "Can't lock /run/xtables.lock: Resource temporarily unavailable\n"],
  ['short', 1, 'iptables-nft-restore v1.8.9 (nf_tables): Memory allocation problem\n'],
  ['short', 1, 'Error: Could not process rule: Cannot allocate memory\n'],
  ['short', 1, 'netlink: Error: cache initialization failed: No buffer space available\n'],
  [
    'denied',
    4,
    'iptables v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)\n',
  ],
  ['denied', 1, 'Error: Could not process rule: Operation not permitted\n'],
  ['killed', 137, ''],
  ['garbled', 1, ''],
  ['garbled', 1, 'qwertz\n'],
  ['garbled', 3, 'an upgrade is going on, please wait\n'],
];

test.each(printed)('%s: exit code %i with %j', (kind, exitCode, stderr) => {
  expect(kindOf({ exitCode, stderr })).toBe(kind);
});

test('takes the reason of a run without an exit code', () => {
  expect(kindOf({ exitCode: undefined, stderr: 'iptables: ', lost: 'hung' })).toBe('hung');
  expect(kindOf({ exitCode: undefined, stderr: '' })).toBe('killed');
});

test('does not take the output of another program for that of a tool', () => {
  const isRule = (line: string): boolean => line.startsWith('-A ');
  expect(() => mustPrint('/usr/sbin/iptables', '-A OUTPUT\n-A INPUT\n', isRule)).not.toThrow();
  expect(() => mustPrint('/usr/sbin/iptables', '-A OUTPUT\nqwertz\n', isRule)).toThrow('iptables printed "qwertz"');
});
