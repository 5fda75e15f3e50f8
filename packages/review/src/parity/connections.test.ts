import type { ParityDifference } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { bundleOf } from '../example.fixture.ts';
import { nftJson, observe, type SavedFiles, savedFiles } from './observed.fixture.ts';
import { parityOf } from './parity.ts';

/** An accepted difference covers the packets that it was accepted for, and no others. */

const node = 'node-1';

function differencesWith(change: (saved: SavedFiles) => void, example = '01-cluster-ip'): readonly ParityDifference[] {
  const files = bundleOf(example);
  const saved = savedFiles(files, node);
  change(saved);
  const report = parityOf(files, observe(node, saved), node);
  return report.differences;
}

test.each([
  ['KUBE-FIREWALL', 'foreign-rule'],
  ['SLUICE-FIREWALL', 'bug'],
])('%s without the states of connections drops answers to node ports on localhost: %s', (chain, cause) => {
  const exception = ' -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT';
  const found = differencesWith((saved) => {
    const file = 'iptables-nft-save.txt';
    const text = saved.get(file) ?? '';
    expect(text).toContain(exception);
    saved.set(file, text.replaceAll(exception, '').replaceAll('KUBE-FIREWALL', chain));
  });
  const [guard = ''] = found.map(({ rule }) => rule);
  expect(guard).toContain('127.0.0.0/8');
  expect(found).toMatchObject([
    { cause, source: { class: 'outside' }, packet: { to: '127.0.0.1', state: 'established' } },
  ]);
});

test.each([
  ['before translation, where they have the address of the node', 'raw', 'PREROUTING', 0],
  ['behind it', 'filter', 'INPUT', 1],
])('answers to localhost are compared with a rule %s', (_place, table, chain, count) => {
  const found = differencesWith((saved) => {
    const file = 'iptables-nft-save.txt';
    const text = `*${table}\n:${chain} ACCEPT [0:0]\n-A ${chain} ! -i lo -d 127.0.0.0/8 -j DROP\nCOMMIT\n`;
    saved.set(
      file,
      table === 'raw'
        ? `${text}${saved.get(file) ?? ''}`
        : (saved.get(file) ?? '').replace(`-A ${chain} `, `-A ${chain} ! -i lo -d 127.0.0.0/8 -j DROP\n-A ${chain} `),
    );
  });
  expect(found.filter(({ packet }) => packet.state === 'established')).toHaveLength(count);
});

/** Established connections of these protocols reach one rule that drops all. */
const dropping =
  (...protocols: readonly string[]) =>
  (saved: SavedFiles): void => {
    const file = 'iptables-nft-save.txt';
    const jumps = protocols.map((one) => `-A FORWARD -p ${one} -m conntrack --ctstate ESTABLISHED -j HID\n`).join('');
    saved.set(file, (saved.get(file) ?? '').replace('-A FORWARD', `:HID -\n-A HID -j DROP\n${jumps}-A FORWARD`));
  };

test('further packets that one rule drops are another difference, and are named', () => {
  const [one, ...none] = differencesWith(dropping('sctp'));
  const [both, ...others] = differencesWith(dropping('sctp', 'tcp'));
  expect([none, others]).toEqual([[], []]);
  expect(one).toMatchObject({ rule: '-A HID -j DROP', alsoFrom: ['sctp pod-here to outside'] });
  expect(both).toMatchObject({
    rule: '-A HID -j DROP',
    source: { class: 'outside' },
    packet: { protocol: 'tcp' },
    alsoFrom: ['tcp pod-here to outside', 'sctp outside to pod-here', 'sctp pod-here to outside'],
  });
  expect(both?.id).not.toBe(one?.id);
});

test('rules of one text in two chains of nftables are two differences', () => {
  const of = { family: 'inet', table: 'other' };
  const idsOf = (chain: string): readonly string[] =>
    differencesWith((saved) => {
      const base = { ...of, name: 'c', type: 'filter', hook: 'forward', prio: -5, policy: 'accept' };
      const listed = [
        { chain: base },
        { chain: { ...of, name: chain } },
        { rule: { ...of, chain: 'c', expr: [{ jump: { target: chain } }] } },
        { rule: { ...of, chain, expr: [{ drop: null }] } },
      ];
      saved.set('nft.json', nftJson(listed));
    }).map(({ id }) => id);
  const [first, second] = [idsOf('d'), idsOf('e')];
  expect(first.length).toBeGreaterThan(1);
  expect(second).toHaveLength(first.length);
  expect(first.filter((id) => second.includes(id))).toEqual([]);
});

const text = 'iptables-nft-save.txt';
const replacing =
  (from: string | RegExp, to: string) =>
  (saved: SavedFiles): void => {
    const before = saved.get(text) ?? '';
    expect(before).toMatch(from);
    saved.set(text, before.replace(from, to));
  };

test('rules of closed frontends without a test of the state refuse packets of no connection, of the node, too', () => {
  const jump = /^-A OUTPUT -m conntrack --ctstate NEW (.*-j KUBE-SERVICES)$/m;
  const found = differencesWith(replacing(jump, '-A OUTPUT $1'), '07-policies');
  expect(found).toMatchObject([
    {
      cause: 'bug',
      source: { class: 'node' },
      packet: { to: '10.96.0.73', port: 80, state: 'invalid' },
      rule: expect.stringContaining('has no endpoints'),
    },
  ]);
});

test('on a machine with liberal TCP windows neither side has a rule for packets of no connection', () => {
  const found = differencesWith((saved) => {
    replacing(/^-A .* --ctstate INVALID .*-j DROP\n/m, '')(saved);
    saved.set('sysctl.txt', `${saved.get('sysctl.txt') ?? ''}net.netfilter.nf_conntrack_tcp_be_liberal = 1\n`);
  }, '07-policies');
  expect(found).toEqual([]);
});

test('what a firewall does with packets of no connection is no difference', () => {
  const rule = '-A OUTPUT -m conntrack --ctstate INVALID -j DROP';
  expect(differencesWith(replacing(/^-A /m, `${rule}\n-A `), '07-policies')).toEqual([]);
});

test.each([
  ['nat, whose policy no firewall sets', 'nat', ':PREROUTING ACCEPT', ':PREROUTING DROP', 'different'],
  ['filter, as firewalls do', 'filter', '-A FORWARD', '-A FORWARD -d 203.0.113.0/24 -j DROP\n-A FORWARD', 'alike'],
])('packets to no Service that are refused in table %s', (_title, _table, from, to, result) => {
  const found = differencesWith(replacing(from, to));
  expect(found.some(({ packet }) => packet.to === '203.0.113.254') ? 'different' : 'alike').toBe(result);
});
