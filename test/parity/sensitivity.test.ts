// @module-tag test
// @module-tag alone
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ParityDifference, ParityReport } from '@sluice/bundle';
import { atTier, randomOf, reaches, seed } from '@sluice/testing';
import { afterAll, expect, test } from 'vitest';
import { parityOf } from '../../packages/review/src/parity/parity.ts';
import { newest } from './binaries.ts';
import { drawCluster, itemsOf, nodeName } from './clusters.ts';
import { needPrograms } from './programs.ts';
import { questionsOf } from './questions.ts';
import type { Change, Mutant } from './sensitivity/change.ts';
import { loadDump } from './sensitivity/dump.ts';
import { type DumpedNode, dumpedNode, type DumpKind, dumpKinds, withFence } from './sensitivity/dumped-node.ts';
import { foreignChanges, neutralChanges, sysctlChanges } from './sensitivity/foreign-changes.ts';
import { type Asked, PacketJudge, unlikeClients } from './sensitivity/judge.ts';
import { ruleChanges, ruleTimeChanges } from './sensitivity/rule-changes.ts';
import { tableChanges, tableTimeChanges } from './sensitivity/table-changes.ts';
import { Tally } from './sensitivity/tally.ts';

/**
 * How sensitive `sluice parity` is: mistakes in the rules that real proxies wrote. Real packets decide whether a node with the mistake
 * treats any of them differently; parity must say so of each that does, and of none that does not.
 */

const services = 8;
/** In tier test a sample of kinds, in the rules of Sluice: a kube-proxy takes minutes to build. */
const [dumps, kindsMax] = reaches('all')
  ? [dumpKinds, Number.POSITIVE_INFINITY]
  : [dumpKinds.filter(({ of, mode }) => of === 'sluice' && mode === 'nftables'), 12];
/** Mistakes of each kind in each dump: 300 a round, a minute for each dump. */
const rounds = Number(process.env['SLUICE_ROUNDS'] ?? atTier({ quick: 1, soak: 14 }));

const programs = needPrograms(newest, reaches('all'));
const tally = new Tally();
afterAll(() => console.log(`SLUICE_SEED=${seed}, ${rounds} rounds\n${tally.toString()}`));

const timesOf = { ...ruleTimeChanges, ...tableTimeChanges };
const changesOf = ({ mode }: DumpKind): Readonly<Record<string, Change>> => ({
  ...(mode === 'iptables' ? { ...ruleChanges, ...ruleTimeChanges } : { ...tableChanges, ...tableTimeChanges }),
  ...foreignChanges,
  ...sysctlChanges,
  ...neutralChanges,
});

/** Kinds that change how often endpoints are chosen, not which. */
const changesShares =
  /probability|chance|share|slot|removed|twice|order|another chain|another endpoint|address of an endpoint|end of its chain/;

test.concurrent.each(dumps)('mistakes in the rules of $title', { timeout: 7_200_000, retry: 0 }, async (kind) => {
  const dir = mkdtempSync(join(tmpdir(), 'sluice-sensitivity-'));
  const at = dumpKinds.indexOf(kind);
  const cluster = itemsOf(drawCluster(services, randomOf(seed + at)));
  const dumped = await dumpedNode(kind, programs(), cluster, dir);
  try {
    const judge = new PacketJudge(dumped.node, questionsOf(withFence(cluster)));
    await judge.learn();
    await load(dumped, dumped, judge);
    expect(await judge.difference(true, true), 'packets tell the node from itself').toBeUndefined();
    const unchanged = await compared(dumped);
    expect({
      said: verdictOf(unchanged),
      gaps: unchanged.coverage.notCovered
        .filter(({ matters }) => matters)
        .slice(0, 12)
        .map(({ what, why }) => `${what}: ${why}`),
      differences: unchanged.differences.slice(0, 3),
    }).toEqual({ said: 'silent', gaps: [], differences: [] });
    const random = randomOf(seed + 1_000 + at);
    const all = sampleOf(Object.entries(changesOf(kind)), random);
    for (let round = 0; round < rounds; round++)
      for (const [name, change] of all) await examine(dumped, judge, name, change, random);
  } finally {
    await dumped.close();
    rmSync(dir, { recursive: true, force: true });
  }
});

/** Some of a list, drawn at random, in its order. */
function sampleOf<T>(list: readonly T[], random: () => number): readonly T[] {
  if (list.length <= kindsMax) return list;
  const drawn = list.map((one, at) => ({ one, at, by: random() })).toSorted((a, b) => a.by - b.by);
  return drawn
    .slice(0, kindsMax)
    .toSorted((a, b) => a.at - b.at)
    .map(({ one }) => one);
}

async function examine(
  dumped: DumpedNode,
  judge: PacketJudge,
  name: string,
  change: Change,
  random: () => number,
): Promise<void> {
  for (let n = 0; n < drawsMax; n++) {
    const mutant = change(dumped.dump, random);
    if (!mutant) return tally.note(name, 'not here');
    if ((await load(dumped, mutant, judge)) !== undefined) {
      tally.note(name, 'refused');
      continue;
    }
    const report = await compared(dumped);
    const said = verdictOf(report);
    const hasTime = Object.hasOwn(timesOf, name);
    const isOfShares = changesShares.test(name);
    const first = await judge.difference(isOfShares, hasTime);
    // What parity does not name must show twice: a busy machine refuses a packet now and then.
    const seen = first !== undefined && said === 'silent' ? await judge.difference(isOfShares, hasTime) : first;
    const shown = seen ?? (said === 'found' ? await shownBy(dumped, judge, report, hasTime) : undefined);
    tally.judged({ dump: dumped.title, kind: name, what: mutant.what, said, shown, report });
    return;
  }
}

/** Some kinds make texts that the kernel refuses. */
const drawsMax = 8;

async function load(
  { node }: DumpedNode,
  { dump }: Pick<Mutant, 'dump'>,
  judge: PacketJudge,
): Promise<string | undefined> {
  const refused = await loadDump(node, dump);
  judge.restart();
  return refused;
}

async function compared({ files, observe }: DumpedNode): Promise<ParityReport> {
  const report = parityOf(files, await observe(), nodeName);
  return report;
}

const verdictOf = ({ result }: ParityReport): 'found' | 'undecided' | 'silent' =>
  result === 'different' ? 'found' : result === 'incomplete' ? 'undecided' : 'silent';

/** Whether a packet that parity names tells the node with the mistake from the one without. */
async function shownBy(
  dumped: DumpedNode,
  judge: PacketJudge,
  { differences }: ParityReport,
  hasTime: boolean,
): Promise<string | undefined> {
  const isSticky = ({ observed, desired }: ParityDifference): boolean => `${observed} ${desired}`.includes('affinity ');
  const ask = (one: ParityDifference): Promise<Asked | undefined> =>
    isSticky(one) ? judge.oneClient(one.packet, hasTime) : judge.outcomes(one.packet);
  const named = differences.slice(0, packetsMax);
  const after = [];
  for (const one of named) after.push(await ask(one));
  await load(dumped, dumped, judge);
  for (const [at, one] of named.entries()) {
    const [before, fresh] = [await ask(one), after[at]];
    const why = before && fresh && unlikeClients(before, fresh, isSticky(one));
    if (why !== undefined) return `${JSON.stringify(one.packet)}: ${why}`;
  }
  return undefined;
}

const packetsMax = 6;

test('every mistake that packets show is found, and none that they do not show', { retry: 0 }, () => {
  expect(tally.wrong()).toEqual([]);
});
