import { expect, test } from 'vitest';
import type { SavedTable } from './facts.ts';
import { type HookPacket, meetIptables } from './meetings.ts';
import { forwardedPacket } from './packet.fixture.ts';

/** A filter table whose FORWARD has these rules; `A` and `B` are further chains. */
function table(
  forward: readonly string[],
  more: Readonly<Record<string, readonly string[]>> = {},
  policy = 'ACCEPT',
): SavedTable {
  const rulesOf = (chain: string, rules: readonly string[]): readonly string[] =>
    rules.map((rule) => `-A ${chain} ${rule}`);
  const chains = new Map([
    ['FORWARD', { policy, rules: rulesOf('FORWARD', forward) }],
    ...Object.entries(more).map(([name, rules]) => [name, { policy: '-', rules: rulesOf(name, rules) }] as const),
  ]);
  return { store: 'nft', family: 'ipv4', table: 'filter', chains };
}

const met = (of: SavedTable, change: Partial<HookPacket> = {}, effort = { left: 1_000 }): readonly string[] =>
  meetIptables(of, 'FORWARD', { ...forwardedPacket, ...change }, (chain) => chain.startsWith('SLUICE-'), effort).map(
    ({ kind, isCertain, rule }) =>
      `${isCertain ? '' : 'perhaps '}${kind} ${rule.replace('iptables-nft -t filter ', '')}`,
  );

test.each<[string, SavedTable, readonly string[]]>([
  ['a rule for another network', table(['-s 192.0.2.0/24 -j DROP']), []],
  ['a rule for its network', table(['-d 10.244.0.0/16 -j DROP']), ['drop -A FORWARD -d 10.244.0.0/16 -j DROP']],
  ['a mask', table(['-s 10.245.0.0/255.254.0.0 -j DROP']), ['drop -A FORWARD -s 10.245.0.0/255.254.0.0 -j DROP']],
  [
    'a mask with a hole, which is not known',
    table(['-s 10.0.0.0/255.0.255.0 -j DROP']),
    ['perhaps drop -A FORWARD -s 10.0.0.0/255.0.255.0 -j DROP'],
  ],
  ['all but its network', table(['! -s 10.244.0.0/16 -j DROP']), []],
  [
    'its port in a list',
    table(['-p tcp -m multiport --dports 22,8000:9000 -j REJECT']),
    ['drop -A FORWARD -p tcp -m multiport --dports 22,8000:9000 -j REJECT'],
  ],
  ['another state', table(['-m conntrack --ctstate INVALID -j DROP']), []],
  [
    'a mark, which is not known',
    table(['-m mark --mark 0x1 -j DROP']),
    ['perhaps drop -A FORWARD -m mark --mark 0x1 -j DROP'],
  ],
  [
    'a rate, which is not known',
    table(['-m limit --limit 1/s -j DROP']),
    ['perhaps drop -A FORWARD -m limit --limit 1/s -j DROP'],
  ],
  ['an accept before it', table(['-i cali+ -j ACCEPT', '-j DROP']), []],
  [
    'an accept by mark before it',
    table(['-m mark --mark 0x1 -j ACCEPT', '-j DROP']),
    ['perhaps drop -A FORWARD -j DROP'],
  ],
  ['a policy', table([], {}, 'DROP'), ['drop -P FORWARD DROP']],
  ['a policy after an accept', table(['-s 10.0.0.0/8 -j ACCEPT'], {}, 'DROP'), []],
  ['a chain that returns', table(['-j A', '-j DROP'], { A: ['-j RETURN', '-j ACCEPT'] }), ['drop -A FORWARD -j DROP']],
  ['a chain that accepts', table(['-j A', '-j DROP'], { A: ['-o eth0 -j ACCEPT'] }), []],
  [
    'a chain that drops perhaps',
    table(['-j A'], { A: ['-m set --match-set x src -j DROP'] }),
    ['perhaps drop -A A -m set --match-set x src -j DROP'],
  ],
  [
    'a goto, whose chain returns to the policy',
    table(['-g A', '-j ACCEPT'], { A: [] }, 'DROP'),
    ['drop -P FORWARD DROP'],
  ],
  ['words of rules in a comment', table(['-m comment --comment "x -j DROP" -j ACCEPT'], {}, 'DROP'), []],
  [
    'a packet that is not tracked, and goes on',
    table(['-j CT --notrack', '-j DROP']),
    ['notrack -A FORWARD -j CT --notrack', 'drop -A FORWARD -j DROP'],
  ],
  ['a log', table(['-j LOG', '-j DROP']), ['drop -A FORWARD -j DROP']],
  [
    'a mark of the connection, and goes on',
    table(['-j CONNMARK --restore-mark', '-j DROP']),
    ['drop -A FORWARD -j DROP'],
  ],
  [
    'a translation to a range',
    table(['-j DNAT --to-destination 192.0.2.1-192.0.2.9']),
    ['translate -A FORWARD -j DNAT --to-destination 192.0.2.1-192.0.2.9'],
  ],
  [
    'a transparent proxy, which takes packets or drops them',
    table(['-p tcp -j TPROXY --on-port 15001 --on-ip 0.0.0.0 --tproxy-mark 0x0/0x0', '-j DROP']),
    ['translate -A FORWARD -p tcp -j TPROXY --on-port 15001 --on-ip 0.0.0.0 --tproxy-mark 0x0/0x0'],
  ],
  [
    'a transparent proxy for marked packets',
    table(['-p tcp -m mark --mark 0x200/0xf00 -j TPROXY --on-port 15001']),
    ['perhaps translate -A FORWARD -p tcp -m mark --mark 0x200/0xf00 -j TPROXY --on-port 15001'],
  ],
  [
    'a share of packets',
    table(['-m statistic --mode random --probability 0.50000000000 -j DROP']),
    ['perhaps drop -A FORWARD -m statistic --mode random --probability 0.50000000000 -j DROP'],
  ],
  [
    'a goto that perhaps leaves',
    table(['-m mark --mark 0x1 -g A', '-j DROP'], { A: [] }),
    ['perhaps drop -A FORWARD -j DROP'],
  ],
  ['a target that is not known', table(['-j NEVERHEARD', '-j DROP']), ['perhaps drop -A FORWARD -j DROP']],
  [
    'a chain that perhaps returns, and otherwise falls through',
    table(['-j A', '-j DROP'], { A: ['-m mark --mark 0x1 -j RETURN', '-j LOG'] }),
    ['drop -A FORWARD -j DROP'],
  ],
  ['chains that form a loop', table(['-j A'], { A: ['-j A'] }), []],
])('judges %s', (_title, given, expected) => {
  expect(met(given)).toEqual(expected);
});

test('chains that call each other twice each end with what may be judged, and what follows is not known', () => {
  const names = Array.from({ length: 30 }, (_, at) => `L${at}`);
  const calls = names.map((name, at) => [name, at === 29 ? [] : [`-j L${at + 1}`, `-j L${at + 1}`]] as const);
  const effort = { left: 10_000 };
  expect(met(table(['-j L0', '-j DROP'], Object.fromEntries(calls), 'DROP'), {}, effort)).toEqual([
    'perhaps drop -P FORWARD DROP',
  ]);
  expect(effort.left).toBeLessThan(0);
});

test('what follows chains that lead deeper than any tool accepts is not known', () => {
  const deep = Array.from({ length: 70 }, (_, at) => [`L${at}`, at === 69 ? [] : [`-j L${at + 1}`]] as const);
  expect(met(table(['-j L0', '-j DROP'], Object.fromEntries(deep)))).toEqual(['perhaps drop -A FORWARD -j DROP']);
});

test('what decided before the effort ended is certain', () => {
  const of = table(['-j CT --notrack', '-j LOG', '-j DROP']);
  expect(met(of, {}, { left: 2 })).toEqual(['notrack -A FORWARD -j CT --notrack']);
});

test('the end of a chain with further rules is not known', () => {
  const whole = table(['-s 192.0.2.0/24 -j ACCEPT'], {}, 'DROP');
  const [[name, chain] = ['', { policy: '', rules: [] }]] = [...whole.chains];
  expect(met(whole)).toEqual(['drop -P FORWARD DROP']);
  expect(met({ ...whole, chains: new Map([[name, { ...chain, isCut: true as const }]]) })).toEqual([
    'perhaps drop -P FORWARD DROP',
  ]);
});

test("Sluice's chains accept masqueraded packets and replies, and let others continue", () => {
  const own = table(['-j SLUICE-FORWARD', '-j DROP']);
  expect(met(own)).toEqual(['drop -A FORWARD -j DROP']);
  expect(met(own, { isMasqueraded: true })).toEqual([]);
  expect(met(own, { isReply: true })).toEqual([]);
});

test.each([
  ['source', '-s 10.244.1.9/32 -j DROP', ['perhaps drop -A FORWARD -s 10.244.1.9/32 -j DROP']],
  ['destination', '-j DROP', []],
])('a %s that is no address makes no rule certain', (end, rule, expected) => {
  expect(met(table([rule]), { [end]: 'fe80::1%eth0' })).toEqual(expected);
});

test('rules for replies ask for the source port', () => {
  const reply = { isReply: true, isTranslated: false };
  expect(met(table(['-p tcp -m tcp --sport 8080 -j DROP']), reply)).toHaveLength(1);
  expect(met(table(['-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT', '-j DROP']), reply)).toEqual([]);
});

test.each([
  ['"allow $(reboot)"', `'allow $(reboot)'`],
  ['"it\'s \\"x\\" `id`"', `'it'\\''s "x" \`id\`'`],
  ['web;reboot', "'web;reboot'"],
  ['shop/web:http', 'shop/web:http'],
])('the command that removes a rule is one for a shell, whatever the comment %s holds', (comment, word) => {
  const [first] = meetIptables(
    table([`-m comment --comment ${comment} -j DROP`]),
    'FORWARD',
    forwardedPacket,
    () => false,
    {
      left: 10,
    },
  );
  expect(first?.fix).toBe(`iptables-nft -t filter -D FORWARD -m comment --comment ${word} -j DROP`);
});
