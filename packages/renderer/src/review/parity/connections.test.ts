import type { ParityDifference } from '@sluice/bundle';
import { expect, test } from 'vitest';
import { bundleOf } from '../example.fixture.ts';
import { nftJson, observe, type SavedFiles, savedFiles } from './observed.fixture.ts';
import { parityOf } from './parity.ts';

/** An accepted difference covers the packets that it was accepted for, and no others. */

const node = 'node-1';

function differencesWith(change: (saved: SavedFiles) => void): readonly ParityDifference[] {
  const files = bundleOf('01-cluster-ip');
  const saved = savedFiles(files, node);
  change(saved);
  const report = parityOf(files, observe(node, saved), node);
  if (!('result' in report)) throw new Error(report[0]?.message);
  return report.differences;
}

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
