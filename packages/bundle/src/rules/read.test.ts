import { expect, test } from 'vitest';
import type { Family } from '../rulefile.ts';
import { printRule } from './print.ts';
import { readRule } from './read.ts';

/** As kube-proxy feeds it, and as iptables-save 1.8.9 prints it. */
test.each<[string, Family, string, string]>([
  [
    'a cluster address',
    'ipv4',
    '-A KUBE-SERVICES -m comment --comment "shop/cart:http cluster IP" -m tcp -p tcp -d 10.96.7.1 --dport 80 -j KUBE-SVC-I5LIAMPLWKMBJ54B',
    '-A KUBE-SERVICES -d 10.96.7.1/32 -p tcp -m comment --comment "shop/cart:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-I5LIAMPLWKMBJ54B',
  ],
  [
    'a node port with a comment of one word',
    'ipv4',
    '-A KUBE-NODEPORTS -m comment --comment shop/cart:http -m udp -p udp --dport 30080 -j KUBE-EXT-I5LIAMPLWKMBJ54B',
    '-A KUBE-NODEPORTS -p udp -m comment --comment "shop/cart:http" -m udp --dport 30080 -j KUBE-EXT-I5LIAMPLWKMBJ54B',
  ],
  [
    'a comment of safe characters stands without quotes',
    'ipv4',
    '-A KUBE-NODEPORTS -m comment --comment "shop-cart" -j KUBE-EXT-I5LIAMPLWKMBJ54B',
    '-A KUBE-NODEPORTS -m comment --comment shop-cart -j KUBE-EXT-I5LIAMPLWKMBJ54B',
  ],
  [
    'quotes and backslashes in a comment',
    'ipv4',
    String.raw`-A KUBE-NODEPORTS -m comment --comment "it's \"a\" \\" -j KUBE-EXT-I5LIAMPLWKMBJ54B`,
    String.raw`-A KUBE-NODEPORTS -m comment --comment "it\'s \"a\" \\" -j KUBE-EXT-I5LIAMPLWKMBJ54B`,
  ],
  [
    'a source outside a network',
    'ipv6',
    '-A KUBE-SVC-X -m comment --comment "a b" -m sctp -p sctp -d fd00:10:96::7 --dport 80 ! -s fd00:10:244::/56 -j KUBE-MARK-MASQ',
    '-A KUBE-SVC-X ! -s fd00:10:244::/56 -d fd00:10:96::7/128 -p sctp -m comment --comment "a b" -m sctp --dport 80 -j KUBE-MARK-MASQ',
  ],
  [
    'an interface prefix',
    'ipv4',
    '-A KUBE-SVC-X ! -i cali+ -j KUBE-MARK-MASQ',
    '-A KUBE-SVC-X ! -i cali+ -j KUBE-MARK-MASQ',
  ],
  ['every source', 'ipv4', '-A KUBE-SVC-X -s 0.0.0.0/0 -j KUBE-MARK-MASQ', '-A KUBE-SVC-X -j KUBE-MARK-MASQ'],
  ['bits behind the prefix', 'ipv4', '-A KUBE-SVC-X -s 10.1.2.3/8 -j ACCEPT', '-A KUBE-SVC-X -s 10.0.0.0/8 -j ACCEPT'],
  [
    'an or-mark',
    'ipv4',
    '-A KUBE-MARK-MASQ -j MARK --or-mark 0x00004000',
    '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000',
  ],
  [
    'a xor-mark',
    'ipv4',
    '-A KUBE-POSTROUTING -j MARK --xor-mark 0x00004000',
    '-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0',
  ],
  [
    'the highest bit',
    'ipv4',
    '-A KUBE-MARK-MASQ -j MARK --or-mark 0x80000000',
    '-A KUBE-MARK-MASQ -j MARK --set-xmark 0x80000000/0x80000000',
  ],
  [
    'a mark that is not set',
    'ipv4',
    '-A KUBE-POSTROUTING -m mark ! --mark 0x00004000/0x00004000 -j RETURN',
    '-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN',
  ],
  [
    'a whole mark',
    'ipv4',
    '-A KUBE-FORWARD -m mark --mark 0x1/0xffffffff -j ACCEPT',
    '-A KUBE-FORWARD -m mark --mark 0x1 -j ACCEPT',
  ],
  [
    'a third',
    'ipv4',
    '-A KUBE-SVC-X -m statistic --mode random --probability 0.3333333333 -j KUBE-SEP-X',
    '-A KUBE-SVC-X -m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-X',
  ],
  [
    'a seventh',
    'ipv4',
    '-A KUBE-SVC-X -m statistic --mode random --probability 0.1428571429 -j KUBE-SEP-X',
    '-A KUBE-SVC-X -m statistic --mode random --probability 0.14285714272 -j KUBE-SEP-X',
  ],
  [
    'one in 4,096, which lies half-way between two texts',
    'ipv4',
    '-A KUBE-SVC-X -m statistic --mode random --probability 0.0002441406 -j KUBE-SEP-X',
    '-A KUBE-SVC-X -m statistic --mode random --probability 0.00024414062 -j KUBE-SEP-X',
  ],
  [
    'session affinity, asked',
    'ipv4',
    '-A KUBE-SVC-X -m recent --name KUBE-SEP-X --rcheck --seconds 600 --reap -j KUBE-SEP-X',
    '-A KUBE-SVC-X -m recent --rcheck --seconds 600 --reap --name KUBE-SEP-X --mask 255.255.255.255 --rsource -j KUBE-SEP-X',
  ],
  [
    'session affinity, remembered',
    'ipv6',
    '-A KUBE-SEP-X -m recent --name KUBE-SEP-X --set -m tcp -p tcp -j DNAT --to-destination [fd00:10:244:2::9]:8080',
    '-A KUBE-SEP-X -p tcp -m recent --set --name KUBE-SEP-X --mask ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff --rsource -m tcp -j DNAT --to-destination [fd00:10:244:2::9]:8080',
  ],
  [
    'an IPv4 reject',
    'ipv4',
    '-A KUBE-SERVICES -j REJECT',
    '-A KUBE-SERVICES -j REJECT --reject-with icmp-port-unreachable',
  ],
  [
    'an IPv6 reject',
    'ipv6',
    '-A KUBE-SERVICES -j REJECT',
    '-A KUBE-SERVICES -j REJECT --reject-with icmp6-port-unreachable',
  ],
  [
    'states in any order',
    'ipv4',
    '-A KUBE-FIREWALL -d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate DNAT,RELATED,ESTABLISHED -j DROP',
    '-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP',
  ],
  [
    'a local destination',
    'ipv6',
    '-A KUBE-SERVICES -m addrtype --dst-type LOCAL ! -d ::1/128 -j KUBE-NODEPORTS',
    '-A KUBE-SERVICES ! -d ::1/128 -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS',
  ],
  [
    'a masquerade',
    'ipv4',
    '-A KUBE-POSTROUTING -j MASQUERADE --random-fully',
    '-A KUBE-POSTROUTING -j MASQUERADE --random-fully',
  ],
  ['a goto', 'ipv4', '-A KUBE-SERVICES -g KUBE-ROOT-A', '-A KUBE-SERVICES -g KUBE-ROOT-A'],
  [
    'no target',
    'ipv4',
    '-A KUBE-FW-X -m comment --comment "other traffic"',
    '-A KUBE-FW-X -m comment --comment "other traffic"',
  ],
])('%s is printed as iptables-save prints it', (_title, family, fed, saved) => {
  const rule = readRule(fed, family);
  expect('error' in rule ? rule.error : printRule(rule, family)).toBe(saved);
  expect(readRule(saved, family)).toEqual(rule);
});

test.each([
  ['a program to run as root', '-A KUBE-SERVICES -M /tmp/evil -j ACCEPT', 'option -M'],
  ['the same in long form', '-A KUBE-SERVICES --modprobe=/tmp/evil -j ACCEPT', 'option --modprobe'],
  ['another table', '-A KUBE-SERVICES -t raw -j ACCEPT', 'option -t'],
  ['another command', '-I KUBE-SERVICES -j ACCEPT', 'does not start with -A'],
  ['a flush', '-F KUBE-SERVICES', 'does not start with -A'],
  ['counters', '-A KUBE-SERVICES -c 1 2 -j ACCEPT', 'option -c'],
  ['a second command', '-A KUBE-SERVICES -j ACCEPT -D KUBE-SERVICES', 'behind the target'],
  ['an empty line', '', 'single spaces'],
  ['a chain of 29 characters', `-A ${'K'.repeat(29)} -j ACCEPT`, 'does not start with -A and a chain'],
  ['a quoted chain', '-A "KUBE X" -j ACCEPT', 'does not start with -A and a chain'],
  ['a line of 1,001 bytes', `-A KUBE-X -m comment --comment "${'x'.repeat(968)}"`, '1000 bytes'],
  ['a newline', '-A KUBE-X -m comment --comment "a\n-A INPUT -j ACCEPT"', 'printable'],
  ['a NUL byte', '-A KUBE-X -m comment --comment "a\0" -j DROP', 'printable'],
  ['a tab', '-A KUBE-X\t-j DROP', 'printable'],
  ['a letter outside ASCII', '-A KUBE-X -m comment --comment "é" -j DROP', 'printable'],
  ['two spaces', '-A KUBE-X  -j DROP', 'single spaces'],
  ['a space at the end', '-A KUBE-X -j DROP ', 'single spaces'],
  ['quotes that do not end', '-A KUBE-X -m comment --comment "a -j DROP', 'quotes'],
  ['quotes that end in an escape', '-A KUBE-X -m comment --comment "a\\"', 'quotes'],
  ['quotes inside a word', '-A KUBE-X -m comment --comment a"b -j DROP', 'quotes'],
  ['quotes with a word behind', '-A KUBE-X -m comment --comment "a"b -j DROP', 'quotes'],
  ['empty quotes', '-A KUBE-X -m comment --comment "" -j DROP', 'quotes'],
  ['a backslash in a word', '-A KUBE-X -m comment --comment a\\b -j DROP', 'quotes'],
  ['an option in quotes', '-A KUBE-X "-j" DROP', 'is not in the grammar'],
  ['a comment like an option', '-A KUBE-X -m comment --comment "-t nat" -j DROP', 'starts with a dash'],
  ['a comment of 256 bytes', `-A KUBE-X -m comment --comment ${'x'.repeat(256)} -j DROP`, 'longer than 255'],
  ['a target of iptables that is not ours', '-A KUBE-X -j LOG', 'target LOG'],
  ['a goto to a verdict', '-A KUBE-X -g DROP', 'target DROP'],
  ['no chain to jump to', '-A KUBE-X -j', 'target  is not'],
  ['a host name', '-A KUBE-X -s localhost -j DROP', 'neither an address'],
  ['a mask', '-A KUBE-X -s 10.0.0.0/255.0.0.0 -j DROP', 'neither an address'],
  ['no source at all', '-A KUBE-X ! -s 0.0.0.0/0 -j DROP', 'matches nothing'],
  ['two sources', '-A KUBE-X -s 10.0.0.1 -s 10.0.0.2 -j DROP', 'given twice'],
  ['every interface', '-A KUBE-X -i + -j DROP', 'no name of interfaces'],
  ['an interface of 16 bytes', `-A KUBE-X -i ${'e'.repeat(16)} -j DROP`, 'no name of interfaces'],
  ['a path for an interface', '-A KUBE-X -i ../eth0 -j DROP', 'no name of interfaces'],
  ['a protocol by number', '-A KUBE-X -p 6 -j DROP', 'protocol 6'],
  ['a protocol without ports', '-A KUBE-X -p icmp -j DROP', 'protocol icmp'],
  ['a port without a protocol', '-A KUBE-X --dport 80 -j DROP', 'without -m tcp'],
  ['a match without its protocol', '-A KUBE-X -m tcp --dport 80 -j DROP', 'without -p tcp'],
  ['another protocol than the match', '-A KUBE-X -m tcp -p udp --dport 80 -j DROP', 'without -p tcp'],
  ['a port range', '-A KUBE-X -m tcp -p tcp --dport 1:65535 -j DROP', 'one port'],
  ['a port by name', '-A KUBE-X -m tcp -p tcp --dport http -j DROP', 'one port'],
  ['a port over 65535', '-A KUBE-X -m tcp -p tcp --dport 65536 -j DROP', 'one port'],
  ['a source port', '-A KUBE-X -m tcp -p tcp --sport 80 -j DROP', 'option --sport'],
  ['an unknown match', '-A KUBE-X -m nfacct --nfacct-name x -j DROP', 'match nfacct'],
  ['a match twice', '-A KUBE-X -m mark --mark 0x1 -m mark --mark 0x2 -j DROP', 'given twice'],
  ['a negated match option', '-A KUBE-X -m addrtype ! --dst-type LOCAL -j DROP', '-m addrtype'],
  ['another address type', '-A KUBE-X -m addrtype --dst-type UNICAST -j DROP', '-m addrtype'],
  ['an unknown state', '-A KUBE-X -m conntrack --ctstate NEW,OLD -j DROP', '--ctstate'],
  ['a state twice', '-A KUBE-X -m conntrack --ctstate NEW,NEW -j DROP', '--ctstate'],
  ['a decimal mark', '-A KUBE-X -m mark --mark 16384 -j DROP', '--mark'],
  ['a mark of 33 bits', '-A KUBE-X -j MARK --or-mark 0x100000000', '--or-mark'],
  ['a mark without an option', '-A KUBE-X -j MARK', 'MARK  is not'],
  ['a probability over one', '-A KUBE-X -m statistic --mode random --probability 1.1 -j KUBE-Y', '--probability'],
  ['another mode', '-A KUBE-X -m statistic --mode nth --every 2 -j KUBE-Y', 'not random'],
  [
    'a list that goes by part of an address',
    '-A KUBE-X -m recent --rcheck --name KUBE-Y --mask 255.255.255.0 -j KUBE-Y',
    'mask',
  ],
  ['a list by destination', '-A KUBE-X -m recent --rcheck --name KUBE-Y --rdest -j KUBE-Y', 'option --rdest'],
  ['a list named by a path', '-A KUBE-X -m recent --rcheck --name ../x -j KUBE-Y', 'no name of a chain'],
  ['reaping without an age', '-A KUBE-X -m recent --rcheck --reap --name KUBE-Y -j KUBE-Y', 'do not go together'],
  ['a reject that nobody knows', '-A KUBE-X -j REJECT --reject-with echo-reply', '--reject-with'],
  ['a reset without TCP', '-A KUBE-X -p udp -j REJECT --reject-with tcp-reset', 'without -p tcp'],
  ['a destination without a port', '-A KUBE-X -p tcp -j DNAT --to-destination 10.0.0.1', 'one address with one port'],
  [
    'a destination range',
    '-A KUBE-X -p tcp -j DNAT --to-destination 10.0.0.1-10.0.0.9:80',
    'one address with one port',
  ],
  ['a destination without a protocol', '-A KUBE-X -j DNAT --to-destination 10.0.0.1:80', 'without -p'],
  [
    'an IPv6 destination without brackets',
    '-A KUBE-X -p tcp -j DNAT --to-destination fd00::1:80',
    'one address with one port',
  ],
  ['both families in one line', '-A KUBE-X -p tcp -s 10.0.0.1 -d fd00::1 -j DROP', 'does not go with ipv4'],
])('refuses %s', (_title, line, reason) => {
  const rule = readRule(line);
  expect('error' in rule ? rule.error : rule).toContain(reason);
});

test.each<[string, string, Family]>([
  ['an IPv6 address', '-A KUBE-X -s fd00::1 -j DROP', 'ipv4'],
  ['all of IPv6', '-A KUBE-X -s ::/0 -j DROP', 'ipv4'],
  ['an IPv4 reject', '-A KUBE-X -j REJECT --reject-with icmp-port-unreachable', 'ipv6'],
  ['an IPv4 destination', '-A KUBE-X -p tcp -j DNAT --to-destination 10.0.0.1:80', 'ipv6'],
  ['an IPv4 mask', '-A KUBE-X -m recent --rcheck --name KUBE-Y --mask 255.255.255.255 -j KUBE-Y', 'ipv6'],
])('refuses %s among rules of the other family', (_title, line, family) => {
  const rule = readRule(line, family);
  expect('error' in rule ? rule.error : rule).toContain(`does not go with ${family}`);
});
