import { observationOf, textsOf } from '@sluice/bundle';
import { emptyProgram, type Packet } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { outcomeOf } from '../flows/outcome.ts';
import { traceNotes } from '../../../netfilter/src/live/rule.ts';
import { observedNode } from '../observed/node.ts';

/** A sticky list of two endpoints in Sluice's table, as nft 1.0.6 lists it. */
const listing = (change: (text: string) => string): string =>
  change(`table inet sluice {
	map svc4 {
		type ipv4_addr . inet_proto . inet_service : verdict
		elements = { 10.96.0.60 . tcp . 80 : goto s2t600 }
	}
	map aff4 {
		typeof ip saddr . ip daddr . meta l4proto . th dport : meta priority
		size 65536
		flags dynamic,timeout
		elements = { 10.244.1.9 . 10.96.0.60 . tcp . 80 timeout 10m expires 9m : 12:0 }
	}
	map slot4 {
		typeof ip daddr . meta l4proto . th dport . numgen random mod 2 : meta priority
		elements = { 10.96.0.60 . tcp . 80 . 0 : 3f2a:91c0, 10.96.0.60 . tcp . 80 . 1 : 12:0 }
	}
	map id4 {
		type ipv4_addr . inet_proto . inet_service . classid : ipv4_addr . inet_service
		elements = { 10.96.0.60 . tcp . 80 . 3f2a:91c0 counter packets 1 bytes 60 : 10.244.1.5 . 8080,
			     10.96.0.60 . tcp . 80 . 12:0 counter packets 0 bytes 0 : 10.244.2.7 . 8080 }
	}
	chain s2t600-known {
		update @aff4 { ip saddr . ip daddr . meta l4proto . th dport timeout 10m : meta priority }
		dnat ip to ip daddr . meta l4proto . th dport . meta priority map @id4
		delete @aff4 { ip saddr . ip daddr . meta l4proto . th dport : meta priority }
		update @aff6 { jhash ip6 saddr . ip6 daddr mod 4294967295 seed 0x51c3 . jhash ip6 saddr . ip6 daddr mod 4294967295 seed 0x7a1d . meta l4proto . th dport timeout 10m : meta priority }
	}
	map aff6 {
		typeof numgen random mod 2 . numgen random mod 2 . meta l4proto . th dport : meta priority
		flags dynamic,timeout
	}
	chain s2t600 {
		meta priority set ip saddr . ip daddr . meta l4proto . th dport map @aff4 jump s2t600-known
		meta priority set ip daddr . meta l4proto . th dport . numgen random mod 2 map @slot4
		update @aff4 { ip saddr . ip daddr . meta l4proto . th dport timeout 10m : meta priority }
		meta priority set ip saddr . ip daddr . meta l4proto . th dport map @aff4
		dnat ip to ip daddr . meta l4proto . th dport . meta priority map @id4
		meta priority set jhash ip6 saddr . ip6 daddr mod 4294967295 seed 0x51c3 . jhash ip6 saddr . ip6 daddr mod 4294967295 seed 0x7a1d . meta l4proto . th dport map @aff6 jump s2t600-known
	}
	chain sticky4 {
		meta l4proto tcp ct original ip daddr . meta l4proto . ct original proto-dst @sticky4 meta priority set none
	}
	set sticky4 {
		type ipv4_addr . inet_proto . inet_service
		elements = { 10.96.0.60 . tcp . 80 }
	}
	chain nat-prerouting {
		type nat hook prerouting priority dstnat - 1; policy accept;
		ip daddr . meta l4proto . th dport vmap @svc4
	}
	chain nat-postrouting {
		type nat hook postrouting priority srcnat; policy accept;
		meta priority != none jump sticky4
	}
}
`);

const packet: Packet = {
  family: 'ipv4',
  source: '10.244.1.9',
  destination: '10.96.0.60',
  protocol: 'tcp',
  port: 80,
  in: 'pod0',
};

function traced(change: (text: string) => string = (text) => text) {
  const seen = observationOf({ node: 'node-1', tools: {} }, textsOf(new Map([['nft.txt', listing(change)]])));
  const { tables } = observedNode(seen, 'ipv4', []);
  const notes = traceNotes();
  const { branches, affinity } = outcomeOf({ rules: emptyProgram, live: { tables, notes } }, packet, ['192.0.2.11']);
  return { to: branches.map(({ to = '' }) => to), affinity, doubts: [...notes.doubts.keys()].map(({ text }) => text) };
}

const both = ['10.244.1.5:8080', '10.244.2.7:8080'];
const refresh = 'update @aff4 { ip saddr . ip daddr . meta l4proto . th dport timeout 10m : meta priority }';
const lookUp = 'meta priority set ip saddr . ip daddr . meta l4proto . th dport map @aff4 jump s2t600-known';
const second = 'meta priority set ip saddr . ip daddr . meta l4proto . th dport map @aff4\n';
const changed =
  (from: string, to: string, last = false) =>
  (text: string): string => {
    const at = last ? text.lastIndexOf(from) : text.indexOf(from);
    if (at < 0) throw new Error(`${from} is missing`);
    return text.slice(0, at) + to + text.slice(at + from.length);
  };

test.each<[string, ((text: string) => string) | undefined, string | undefined]>([
  ['as it is written', undefined, '600 s'],
  ['another time of new clients', changed('timeout 10m :', 'timeout 1m :', true), '60 s'],
  ['another time of known clients', changed('timeout 10m :', 'timeout 1m :'), '60 s'],
  ['known clients are not renewed', changed(refresh, ''), '600 s, not renewed'],
  ['new clients are not remembered', changed(refresh, '', true), undefined],
  ['known clients are looked up in the second place alone', changed(lookUp, ''), '600 s'],
  ['known clients are not looked up', (text) => changed(second, '')(changed(lookUp, '')(text)), undefined],
  ['the endpoint of one class is gone', changed('10.244.2.7 . 8080', '10.244.3.3 . 8080'), '600 s'],
])('session affinity in the table of mode nftables: %s', (title, change, affinity) => {
  const found = traced(change);
  expect(found).toMatchObject({ affinity, doubts: [] });
  expect(found.to).toEqual(title.includes('is gone') ? ['10.244.1.5:8080', '10.244.3.3:8080'] : both);
});

test('a class without an endpoint leaves the packet alone, and its client gets another one', () => {
  const gone = changed('10.96.0.60 . tcp . 80 . 3f2a:91c0 counter packets 1 bytes 60 : 10.244.1.5 . 8080,', '');
  expect(traced(gone)).toMatchObject({ to: ['', '10.244.2.7:8080'], doubts: [] });
});

test('a key that does not tell clients apart is not read', () => {
  const shared = changed('{ ip saddr . ip daddr . meta l4proto', '{ ip daddr . meta l4proto', true);
  expect(traced(shared).doubts).toEqual([
    'update @aff4 { ip daddr . meta l4proto . th dport timeout 600s : meta priority }',
  ]);
});
