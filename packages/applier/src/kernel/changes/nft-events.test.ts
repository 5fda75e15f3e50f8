import { describe, expect, test } from 'vitest';
import { limits } from '../../limits.ts';
import type { ForeignChange } from './foreign-change.ts';
import { NftEvents } from './nft-events.ts';

/** What a text of `xtables-monitor --event` tells when process 7 is our own. */
const told = (text: string): readonly ForeignChange[] => {
  const events = new NftEvents((pid) => pid === 7);
  return text.split('\n').flatMap((line) => events.read(line) ?? []);
};

describe('xtables-monitor', () => {
  test.each([
    [
      'reports a foreign flush with its process',
      ' EVENT: -4 -t nat -D SLUICE-SERVICES -g SLUICE-R-A.aa\nNEWGEN:\tGENID=3\tPID=12\tNAME=iptables-nft',
      [{ by: 'iptables-nft (process 12)', what: ['iptables -t nat -D SLUICE-SERVICES -g SLUICE-R-A.aa'] }],
    ],
    [
      'what we change ourselves is no drift',
      ' EVENT: -4 -t nat -A SLU-SVC-A.aa -j RETURN\nNEWGEN: GENID=3 PID=7 NAME=nft',
      [],
    ],
    ['ignores foreign chains', ' EVENT: -4 -t filter -N CALICO-X\nNEWGEN: GENID=3 PID=12 NAME=felix', []],
    [
      'a rule in a built-in chain may stand before our jump, though it is none of ours',
      ' EVENT: -6 -t filter -A FORWARD -j DROP\nNEWGEN: GENID=3 PID=12 NAME=ip6tables',
      [{ by: 'ip6tables (process 12)', what: [] }],
    ],
    [
      'reports our rules of a flush, also when foreign rules came first',
      ` EVENT: -4 -t nat -D PREROUTING -j CNI-X${'\n EVENT: -4 -t nat -D PREROUTING -j CNI-X'.repeat(9)}\n EVENT: -4 -t nat -D PREROUTING -m comment --comment "kubernetes service portals" -j SLUICE-SERVICES\nNEWGEN: GENID=3 PID=12 NAME=iptables`,
      [
        {
          by: 'iptables (process 12)',
          what: ['iptables -t nat -D PREROUTING -m comment --comment "kubernetes service portals" -j SLUICE-SERVICES'],
        },
      ],
    ],
    [
      'a table that goes takes our chains with it',
      ' EVENT: nft: DEL table: table nat ip flags 0 use 0 handle 2\nNEWGEN: GENID=4 PID=12 NAME=nft',
      [{ by: 'nft (process 12)', what: ['DEL table: table nat ip'] }],
    ],
    [
      'ignores foreign tables, and rules that are not of iptables',
      ' EVENT: nft: DEL table: table firewalld inet flags 0 use 0 handle 2\n EVENT: -4 -t mangle -A OUTPUT -j DROP\n EVENT: # nft: inet fw x use 0\n EVENT: \nNEWGEN: GENID=4 PID=12 NAME=nft',
      [],
    ],
    [
      'each process has its own change',
      ' EVENT: -4 -t nat -D KUBE-SERVICES -j KUBE-A\nNEWGEN: GENID=4 PID=7 NAME=nft\n EVENT: -4 -t nat -X SLUICE-SERVICES\nNEWGEN: GENID=5 PID=9 NAME=x (y)',
      [{ by: 'x (y) (process 9)', what: ['iptables -t nat -X SLUICE-SERVICES'] }],
    ],
  ])('%s', (_title, text, changes) => {
    expect(told(text)).toEqual(changes);
  });

  test('is relied on only after it has reported the end of a change', () => {
    const events = new NftEvents(() => true);
    events.read(' EVENT: -4 -t nat -N SLU-A');
    expect(events.reports).toBe(0);
    events.read('NEWGEN: GENID=5 PID=9 NAME=iptables');
    expect(events.reports).toBe(1);
  });

  test('keeps a few truncated lines of a large change', () => {
    const line = ` EVENT: -4 -t nat -D SLUICE-SERVICES -m comment --comment ${'x'.repeat(5_000)}`;
    const [change] = told(`${`${line}\n`.repeat(10_000)}NEWGEN: GENID=5 PID=9 NAME=iptables`);
    expect(change?.what).toHaveLength(limits.changesShownMax);
    expect(change?.what[0]?.length).toBeLessThanOrEqual(limits.changeCharactersMax + 1);
  });
});

describe('xtables-monitor in mode nftables', () => {
  test.each([
    ['a change of elements has no event of its own', 'NEWGEN: GENID=4 PID=12 NAME=nft', 1],
    ['a change of rules has an empty one', ' EVENT: \nNEWGEN: GENID=4 PID=12 NAME=nft', 1],
    [
      'a table that goes',
      ' EVENT: nft: DEL table: table sluice inet flags 0 use 0 handle 2\nNEWGEN: GENID=4 PID=12 NAME=nft',
      1,
    ],
    ['our own change', 'NEWGEN: GENID=4 PID=7 NAME=nft', 0],
    ['a rule of iptables', ' EVENT: -4 -t mangle -A OUTPUT -j DROP\nNEWGEN: GENID=4 PID=12 NAME=iptables-nft', 0],
    [
      'another table',
      ' EVENT: nft: NEW table: table firewalld inet flags 0 use 0 handle 2\nNEWGEN: GENID=4 PID=12 NAME=nft',
      0,
    ],
  ])('%s', (_title, text, count) => {
    const events = new NftEvents(
      (pid) => pid === 7,
      () => true,
    );
    const changes = text.split('\n').flatMap((line) => events.read(line) ?? []);
    expect(changes).toEqual(Array.from({ length: count }, () => ({ by: 'nft (process 12)', what: [] })));
    expect(told(text), 'in the other modes').toEqual([]);
  });
});
