// @module-tag test
import { atTier, replay, seed } from '@sluice/testing';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { isInGuest } from '../in-guest.ts';
import { needBackend, needKernel } from '../netns/privileges.ts';
import { planesHere } from '../netns/sluiced-node.ts';
import { type Cell, cellsOf, drawn, pairsOf, printCell } from './cells.ts';
import { healSecondsOf, runCell, slowness } from './run-cell.ts';

/**
 * The tools of `sluiced` in trouble, at each moment of a release: packets and rules, healing, quarantine and health meanwhile. The seed of
 * the run draws the cells; `SLUICE_SURROUNDINGS='nft iptables: crash'` runs those that match, and those of two troubles where it has ` and `.
 * A kernel in user mode runs mode ipvs.
 */
const wanted = process.env['SLUICE_SURROUNDINGS'];
const all = cellsOf(planesHere);
const pairs = pairsOf(planesHere);
const hangs = ({ trouble, also }: Cell): boolean => trouble === 'hang' || also?.trouble === 'hang';
/** A hung tool takes a minute until it is killed: not in each run. */
const usual = (some: readonly Cell[]): readonly Cell[] =>
  atTier({ quick: some.filter((one) => !hangs(one)), all: some });
/** Cells that failed once, of each cause: they run each time. */
const regressions = all.filter((cell) =>
  /^(?:nft iptables: garbage ipset|legacy iptables: silent every|nft nftables: garbage writers) at boot$/.test(
    printCell(cell),
  ),
);
const others = usual(all).filter((cell) => !regressions.includes(cell));
const count = atTier({ quick: 2, test: 4, all: isInGuest ? 8 : 36, soak: all.length });
const pairCount = atTier({ quick: 0, test: 2, all: isInGuest ? 2 : 16, soak: 200 });
const cells =
  wanted === undefined
    ? [...regressions, ...drawn(others, count, seed), ...drawn(usual(pairs), pairCount, seed)]
    : (wanted.includes(' and ') ? pairs : all).filter((cell) => new RegExp(wanted).test(printCell(cell)));
const troubleSeconds = atTier({ quick: 4, soak: 20 });

const rows: string[] = [];
let unmet = 0;
afterAll(() => {
  const head = `seconds to heal (calls that met the trouble), and the most allowed; ${unmet} of ${rows.length} met no call:`;
  // The machine prints lines of a guest that begin so.
  const prefix = isInGuest ? 'guest: ' : '';
  for (const line of rows.length === 0 ? [] : [head, ...rows]) process.stdout.write(`${prefix}${line}\n`);
});

beforeEach(needKernel);

// A guest has one processor.
describe('sluiced', { timeout: 240_000 * slowness, concurrent: !isInGuest }, () => {
  test.for(cells.map((cell) => [printCell(cell), cell] as const))('heals from %s', async ([name, cell], context) => {
    needBackend(context, cell.plane.backend);
    const { wrong, healSeconds, calls } = await runCell(cell, troubleSeconds);
    if (calls === 0) unmet += 1;
    const most = healSecondsOf(cell);
    const met = calls === 0 ? 'no call met it' : `${calls ?? 'uncounted'} calls`;
    rows.push(`${name}: ${healSeconds?.toFixed(1) ?? 'never'} (${met}), ${most}`);
    if (calls === 0 && wrong.length === 0) context.skip('no call met the trouble, so it shows nothing');
    expect(wrong, `again: ${replay('test/surroundings')}`).toEqual([]);
  });
});
