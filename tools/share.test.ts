import { describe, expect, test } from 'vitest';
import { landingsPerRound, type Piece, shareOf, rotations } from './share.ts';

const piece = (path: string, seconds = 60, isAlone = false): Piece => ({ path, seconds, isAlone });
const pool = [
  piece('test/faults/faults-iptables.test.ts', 600),
  piece('test/faults/power.test.ts', 100),
  piece('test/netns/switch-traffic-ends.test.ts', 40, true),
  piece('test/package/systemd-boot.test.ts', 90),
  piece('test/parity/adopt-daemonset.test.ts', 60),
  ...Array.from({ length: 20 }, (_, n) => piece(`test/netns/other-${n}.test.ts`)),
];
const paths = (pieces: readonly Piece[]): readonly string[] => pieces.map(({ path }) => path);

describe('a share of --all', () => {
  test('eight landings cover every file', () => {
    const met = Array.from({ length: landingsPerRound }, (_, n) => paths(shareOf(pool, [], 7 + n).rotation)).flat();
    expect(met.toSorted()).toEqual(paths(pool).toSorted());
  });

  test('the parts take about the same time', () => {
    const seconds = rotations(pool.slice(1)).map((part) => part.reduce((sum, one) => sum + one.seconds, 0));
    expect(Math.max(...seconds) - Math.min(...seconds)).toBeLessThanOrEqual(100);
  });

  test.each([
    [
      'packages/applier/src/apply/transaction/transaction.ts',
      ['test/faults/faults-iptables.test.ts', 'test/faults/power.test.ts', 'test/netns/switch-traffic-ends.test.ts'],
    ],
    ['packages/applier/systemd/sluiced.service', ['test/package/systemd-boot.test.ts']],
    ['test/netns/other-3.test.ts', ['test/netns/other-3.test.ts']],
    ['deploy/mover.yaml', ['test/parity/adopt-daemonset.test.ts']],
    ['README.md', []],
  ])('a change of %s selects its guards first', (touched, guards) => {
    expect(paths(shareOf(pool, [touched], 0).guards)).toEqual(guards);
  });

  test('parity with the real kube-proxy comes first when rules were touched', () => {
    const large = [piece('test/netns/upgrade.test.ts', 200), piece('test/parity/parity.test.ts', 1_400)];
    const { guards, left } = shareOf(large, ['packages/netfilter/src/link/change.ts'], 0);
    expect([paths(guards), paths(left)]).toEqual([['test/parity/parity.test.ts'], ['test/netns/upgrade.test.ts']]);
  });

  test('files over the time budget are listed as left out', () => {
    const large = [piece('test/faults/faults-iptables.test.ts', 1_000), piece('test/faults/power.test.ts', 900)];
    const { guards, left } = shareOf(large, ['packages/applier/src/state/slots.ts'], 0);
    expect([paths(guards), paths(left)]).toEqual([
      ['test/faults/faults-iptables.test.ts'],
      ['test/faults/power.test.ts'],
    ]);
  });

  test.each([
    [0, 0],
    [60, 2],
    [100_000, 24],
  ])(
    'of files of a minute, two at once, a budget of %i s takes %i, and never more than the usual',
    (seconds, count) => {
      const large = Array.from({ length: 40 }, (_, n) => piece(`test/netns/other-${n}.test.ts`));
      expect(shareOf(large, paths(large), 0, seconds).guards).toHaveLength(count);
    },
  );
});
