// @module-tag test
import { atTier } from '@sluice/testing';
import { beforeEach, expect, test, vi } from 'vitest';
import { needKernel } from '../netns/privileges.ts';
import { codesOf, isServed, runCase } from './harness.ts';

/**
 * Forms of rules that firewalls and CNI plugins use, each loaded into a kernel beside Sluice's: where a client's connection fails, the doctor
 * names the rule; where it is answered, nothing is called certain. What is not followed is a limit, a time, a set that packets fill.
 */

vi.setConfig({ testTimeout: 300_000 });
beforeEach(needKernel);

/** What a client outside asks of node port 30080: `drop` where the rule takes every packet, `passes` where it takes none, `unsure` where nobody can say. */
type Form = readonly [end: 'drop' | 'passes' | 'unsure', command: string];

const nft = (hook: string, rules: string, policy = 'accept', priority = '-140'): string =>
  `nft -f - <<'N'\ntable inet fw {\n chain c { type filter hook ${hook} priority ${priority}; policy ${policy}; ${rules} }\n}\nN`;

const forms: readonly Form[] = [
  ['drop', nft('prerouting', 'tcp flags & (fin|syn|rst|ack) == syn tcp dport 30080 drop;')],
  ['passes', nft('prerouting', 'tcp flags & (fin|syn) == (fin|syn) drop;')],
  ['passes', nft('prerouting', 'tcp flags & (fin|syn|rst|psh|ack|urg) == 0x0 drop;')],
  ['passes', nft('prerouting', 'ct state new tcp flags != syn drop;')],
  ['drop', nft('forward', 'tcp flags { syn } reject with tcp reset;')],
  ['passes', nft('prerouting', 'fib saddr . iif oif missing drop;')],
  [
    'passes',
    nft(
      'prerouting',
      'meta nfproto ipv6 fib saddr . mark . iif oif missing drop; fib daddr type { broadcast, anycast } drop;',
    ),
  ],
  ['drop', nft('prerouting', 'fib saddr . iif oif exists tcp dport 30080 drop;')],
  ['drop', nft('forward', 'ct direction original tcp dport 8080 drop;')],
  ['drop', nft('forward', 'ct direction reply drop;')],
  ['passes', nft('forward', 'ct status dnat accept; drop;')],
  ['drop', nft('forward', 'ct status & dnat == dnat drop;')],
  ['drop', nft('prerouting', 'ct state invalid drop;', 'accept', '-300')],
  ['drop', nft('prerouting', 'tcp dport 30000-32767 drop;')],
  ['drop', nft('prerouting', 'tcp dport >= 30000 drop;')],
  ['passes', nft('prerouting', 'tcp dport < 80 drop;')],
  ['drop', nft('prerouting', 'ip saddr 198.51.100.0-198.51.100.255 drop;')],
  ['passes', nft('prerouting', 'ip6 saddr { ::ffff:0.0.0.0/96, ::/96 } drop;')],
  ['passes', nft('prerouting', 'meta pkttype { broadcast, multicast } drop; exthdr frag exists drop;')],
  ['passes', nft('forward', 'meta skuid 0 drop;')],
  ['drop', nft('prerouting', 'ip protocol vmap { icmp : accept, tcp : drop };')],
  ['drop', nft('prerouting', 'meta l4proto { tcp, udp } th dport { 53, 30080 } drop;')],
  ['passes', nft('prerouting', 'ct mark & 0x80 == 0x80 drop;')],
  ['passes', nft('prerouting', 'limit rate over 4000/second burst 500 packets drop;')],
  ['unsure', nft('prerouting', 'meta hour "00:00"-"23:59" drop;')],
  ['drop', 'iptables-nft -t mangle -A PREROUTING -p tcp -m tcp --dport 30080 --tcp-flags FIN,SYN,RST,ACK SYN -j DROP'],
  ['passes', 'iptables-nft -t raw -A PREROUTING -p tcp -m tcp --tcp-flags ALL NONE -j DROP'],
  ['passes', 'iptables-nft -t mangle -A PREROUTING -p tcp ! --syn -m conntrack --ctstate NEW -j DROP'],
  ['passes', 'iptables-nft -t raw -A PREROUTING -m rpfilter --validmark --invert -j DROP'],
  ['passes', 'iptables-nft -A FORWARD -m conntrack --ctdir ORIGINAL -m conntrack --ctstate INVALID -j DROP'],
  ['drop', 'iptables-nft -t mangle -A FORWARD -p tcp -m conntrack --ctdir REPLY -j DROP'],
  ['drop', 'iptables-nft -t mangle -A PREROUTING -m iprange --src-range 198.51.100.1-198.51.100.250 -j DROP'],
  ['passes', 'iptables-nft -A FORWARD -m pkttype --pkt-type broadcast -j DROP'],
  ['drop', 'iptables-nft -t mangle -A PREROUTING -p tcp -m multiport --dports 80,30000:32767 -j DROP'],
  ['drop', 'iptables-nft -t mangle -A FORWARD -m conntrack --ctorigdstport 30080 -j DROP'],
  ['passes', 'iptables-nft -t mangle -A PREROUTING -m connmark --mark 0x80/0x80 -j DROP'],
  ['passes', 'iptables-nft -A FORWARD -f -j DROP'],
  ['passes', 'iptables-nft -t mangle -A PREROUTING -p tcp -m connlimit --connlimit-above 100 -j DROP'],
];

/** Each form alone, and the node as it was afterwards. */
const scriptOf = (mode: string, list: readonly Form[]): string =>
  [
    '. ../common/node.sh',
    `apply ${mode} ../common/in.yaml`,
    ...list.flatMap(([, command]) => [
      command,
      'ask out tcp 198.51.100.7 192.0.2.11 30080 2; doctor shop/web',
      command.startsWith('nft') ? 'nft delete table inet fw' : command.replace(' -A ', ' -D '),
    ]),
  ].join('\n');

/** A part in the smaller tiers, another one in each mode. */
const part = atTier({ quick: 10, all: 1 });

test.each(['iptables', 'nftables'].map((mode, index) => [mode, index] as const))(
  'mode %s: a rule that takes every packet is named, and no other one is certain',
  async (mode, index) => {
    const list = forms.filter((_, at) => at % part === index % part);
    const { asked, diagnoses, output } = await runCase('case-09', {}, scriptOf(mode, list));
    const found = list.map(([, command], at) => {
      const [one, diagnosis] = [asked[at], diagnoses[at]];
      return [command, one ? isServed(one) : output, diagnosis ? codesOf(diagnosis) : output];
    });
    expect(found).toEqual(
      list.map(([end, command]) => [command, end === 'passes', end === 'drop' ? ['FOREIGN_DROP'] : []]),
    );
  },
);
