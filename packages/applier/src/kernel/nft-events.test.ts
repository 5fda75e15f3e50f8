import { describe, expect, test } from 'vitest';
import { limits } from '../limits.ts';
import type { Change } from './changes.ts';
import { NftEvents } from './nft-events.ts';
import { OwnProcesses } from './own-processes.ts';

/** What a text of `nft monitor` tells when process 7 is our own. */
const told = (text: string): readonly Change[] => {
  const events = new NftEvents((pid) => pid === 7);
  return text.split('\n').flatMap((line) => events.read(line.trim()) ?? []);
};

describe('nft monitor', () => {
  test.each([
    [
      'a flush by somebody else is told with who did it',
      'delete rule ip nat SLUICE-SERVICES handle 9\n# new generation 3 by process 12 (iptables-nft)',
      [{ by: 'iptables-nft (process 12)', what: ['delete rule ip nat SLUICE-SERVICES handle 9'] }],
    ],
    [
      'what we change ourselves is no drift',
      'add rule ip nat SLU-SVC-A.aa return\n# new generation 3 by process 7 (nft)',
      [],
    ],
    [
      'chains that have nothing to do with us are passed over',
      'add chain ip filter CALICO-X\n# new generation 3 by process 12 (felix)',
      [],
    ],
    [
      'a rule in a built-in chain may stand before our jump',
      'insert rule ip6 filter FORWARD counter drop\n# new generation 3 by process 12 (ip6tables)',
      [{ by: 'ip6tables (process 12)', what: ['insert rule ip6 filter FORWARD counter drop'] }],
    ],
    [
      'a table that goes takes our chains with it',
      'delete table ip nat\n# new generation 4 by process 12 (nft)',
      [{ by: 'nft (process 12)', what: ['delete table ip nat'] }],
    ],
    ['tables of others are passed over', 'delete table inet firewalld\n# new generation 4 by process 12 (nft)', []],
    [
      'each process has its own change',
      'flush chain ip nat KUBE-SERVICES\n# new generation 4 by process 7 (nft)\ndelete chain ip nat SLUICE-SERVICES\n# new generation 5 by process 9 (x (y))',
      [{ by: 'x (y) (process 9)', what: ['delete chain ip nat SLUICE-SERVICES'] }],
    ],
  ])('%s', (_title, text, changes) => {
    expect(told(text)).toEqual(changes);
  });

  test('of a large change a few lines are kept, each cut', () => {
    const line = `delete rule ip nat SLUICE-SERVICES ${'x'.repeat(5_000)}`;
    const [change] = told(`${`${line}\n`.repeat(10_000)}# new generation 5 by process 9 (iptables)`);
    expect(change?.what).toHaveLength(limits.changesToldMax);
    expect(change?.what[0]?.length).toBeLessThanOrEqual(limits.changeCharactersMax + 1);
  });
});

test('of our own processes the newest are known', () => {
  const own = new OwnProcesses();
  for (let pid = 1; pid <= limits.ownProcessesKept + 3; pid++) own.add(pid);
  expect([3, 4, limits.ownProcessesKept + 3].map((pid) => own.has(pid))).toEqual([false, true, true]);
});
