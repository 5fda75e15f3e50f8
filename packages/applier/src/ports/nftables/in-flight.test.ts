import {
  familySuffix,
  type NftState,
  numberedKey,
  readFrontendKey,
  readListName,
  slotOf,
  trialOff,
} from '@sluice/netfilter';
import { runs } from '@sluice/testing';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { FakeKernel } from '../../kernel/fake/fake.fixture.ts';
import { limits } from '../../limits.ts';
import type { ObservedNft } from './observed.ts';
import { planNftInPlace, planNftProbation, stepsOfChange } from './plan.ts';
import { repairTable } from './repair.ts';
import { nftStates } from './states.fixture.ts';
import type { NftStep } from './values.ts';

/**
 * Packets that are in the table while it changes: each lookup finds what the kernel holds at that moment, so a packet reads one set
 * before a transaction and the next one after it. Within `limits.narrowPauseMs` it has left the table.
 */

type Lookup = (name: string, key: string) => string | undefined;

interface Packet {
  /** The frontend that it is for. */
  readonly key: string;
  readonly isOutside: boolean;
  /** One of the ranges of the frontends, in which its source is. */
  readonly range: string;
  /** Which slot of a list it gets. */
  readonly chance: number;
}

/** What becomes of a packet: the rules of chains `ranges`, `services` and of lists. @returns an endpoint, `dropped` or `untranslated` */
function send({ key, isOutside, range, chance }: Packet, look: Lookup): string {
  const frontend = readFrontendKey(key);
  const own = numberedKey(frontend);
  const chain = (): string => (look('trial', 'any') !== undefined && look('tkey', own) !== undefined ? 't' : '');
  const ranges = chain();
  if (look(`${ranges}fw`, own) !== undefined && look(`${ranges}allow`, `${own} . ${range}`) === undefined)
    return 'dropped';
  const services = chain();
  const isNear = look(`${services}near`, own) !== undefined && isOutside;
  const verdict = (isNear ? look(`${services}out`, own) : undefined) ?? look(`${services}svc`, own);
  const list = readListName(/^goto (\S+)$/.exec(verdict ?? '')?.[1] ?? '');
  if (!list) return 'untranslated';
  const { isLocal } = list;
  const slot = slotOf(chance % list.count, list.isHalfB ? 'b' : 'a', isLocal);
  const found =
    list.seconds === undefined
      ? look(frontend.protocol, `${frontend.address} . ${frontend.port} . ${slot}`)
      : look(`${isLocal ? 'lid' : 'id'}${list.isHalfB ? 'b' : ''}`, `${own} . ${look('slot', `${own} . ${slot}`)}`);
  return found ?? 'untranslated';
}

/** Reads the first lookups in one table, and the later ones in another. */
function acrossChange(key: string, first: number, before: ObservedNft, after: ObservedNft): Lookup {
  let count = 0;
  const n = familySuffix[readFrontendKey(key).family];
  return (name, own) => {
    const { elements } = count++ < first ? before : after;
    const held = elements.get(`${name}${n}`);
    return name === 'trial' ? held?.keys().next().value : held?.get(own);
  };
}
const lookupsMax = 12;

/** Everything that may become of a packet in a table that does not change. */
const endings = (packet: Packet, table: ObservedNft): readonly string[] =>
  [0, 1, 2, 3].map((chance) => send({ ...packet, chance }, acrossChange(packet.key, 0, table, table)));

/** The tables between which packets may be: a pause ends a row. */
type Row = readonly ObservedNft[];

async function carryOut(kernel: FakeKernel, steps: readonly NftStep[]): Promise<readonly Row[]> {
  const look = async (): Promise<ObservedNft> => (await kernel.nft.observe()) as ObservedNft;
  const rows: ObservedNft[][] = [[await look()]];
  for (const step of steps) {
    if ((step.pauseMs ?? 0) >= limits.narrowPauseMs) rows.push([rows.at(-1)?.at(-1) as ObservedNft]);
    await kernel.nft.load(step.text);
    rows.at(-1)?.push(await look());
  }
  return rows;
}

const keys = ['10.96.0.10 . tcp . 80', '10.96.0.11 . sctp . 80', '203.0.113.9 . tcp . 443', 'fd00:10:96::a . tcp . 80'];
const packets: readonly Packet[] = keys.flatMap((key) =>
  [false, true].flatMap((isOutside) =>
    [key.includes(':') ? 'fd00:1::/64' : '198.51.100.0/25', 'none'].flatMap((range) =>
      [0, 1].map((chance) => ({ key, isOutside, range, chance })),
    ),
  ),
);

/** Packets that every table at rest sends to an endpoint, wherever they come from, and that end otherwise, in words. */
function lost(rows: readonly Row[], rest: readonly ObservedNft[]): readonly string[] {
  const pairs = rows.flatMap((row) =>
    row.flatMap((before, at) => row.slice(at + 1).map((after) => ({ before, after }))),
  );
  return packets.flatMap((packet) => {
    const fromAnywhere = [packet, { ...packet, isOutside: !packet.isOutside }];
    const expected = new Set(rest.flatMap((table) => fromAnywhere.flatMap((one) => endings(one, table))));
    if (expected.has('dropped') || expected.has('untranslated')) return [];
    return pairs.flatMap(({ before, after }) =>
      Array.from({ length: lookupsMax }, (_, first) => {
        const ending = send(packet, acrossChange(packet.key, first, before, after));
        return expected.has(ending) ? [] : [`${packet.key}, ${first} lookups before: ${ending}`];
      }).flat(),
    );
  });
}

const on = 'add element inet sluice trial4 { 0.0.0.0/0 }\nadd element inet sluice trial6 { ::/0 }\n';
const other = (text: string): NftStep => ({ kind: 'nft', text, because: 'of the test', leadsTo: undefined });

/** What a kernel holds at rest. */
async function atRest(states: readonly NftState[]): Promise<readonly ObservedNft[]> {
  return Promise.all(
    states.map(async (state) => {
      const { nft } = new FakeKernel();
      for (const step of planNftInPlace({ mend: [], held: undefined, exists: false }, state).first)
        await nft.load(step.text);
      return (await nft.observe()) as ObservedNft;
    }),
  );
}

const linesOf = ({ frontends }: NftState, key: string): readonly (readonly [string, readonly string[]])[] =>
  [...frontends].filter(([one]) => one === key);

type Ending = 'confirmed' | 'newer endpoints' | 'rolled back' | 'finished after a crash' | 'in place';

/** The tables of a change from one state to another. */
async function tablesOf(ending: Ending, old: NftState, fresh: NftState, newer: NftState): Promise<readonly Row[]> {
  const kernel = new FakeKernel();
  const loaded = planNftInPlace({ mend: [], held: undefined, exists: false }, old).first;
  await carryOut(kernel, loaded);
  const held = loaded.at(-1)?.leadsTo;
  if (!held) throw new Error('nothing was loaded');
  const mended = async (state: NftState): Promise<readonly Row[]> => {
    const { first, late } = stepsOfChange(repairTable(await kernel.nft.observe(), state), 'repair');
    return carryOut(kernel, [...first, ...late]);
  };
  if (ending === 'in place') {
    const { first, late } = planNftInPlace({ mend: [], held, exists: true }, fresh);
    return carryOut(kernel, [...first, ...late]);
  }
  const planned = planNftProbation({ mend: [], held, exists: true }, old, fresh);
  await carryOut(kernel, [...planned.stage, other(on)]);
  if (ending === 'confirmed') return carryOut(kernel, [...planned.defaults, ...planned.finish]);
  if (ending === 'rolled back') return [...(await carryOut(kernel, [other(trialOff)])), ...(await mended(old))];
  if (ending === 'finished after a crash') return mended(fresh);
  const staged = planned.stage.at(-1)?.leadsTo ?? held;
  return carryOut(kernel, planNftProbation({ mend: [], held: staged, exists: true }, newer, fresh).stage);
}

const endingsOfChange = ['in place', 'confirmed', 'newer endpoints', 'rolled back', 'finished after a crash'] as const;

test.each<readonly [Ending, string]>([
  ...endingsOfChange.map((ending) => [ending, 'table 1 address'] as const),
  // Lists move to the other half.
  ['in place', 'table 1 address counters'],
])('a packet that is in the table while it changes is not lost: %s, %s', async (ending, line) => {
  const table = fc.constant([line, 'pods 10.244.0.0/16', 'keep 10.244.0.0/16', 'node 192.0.2.11']);
  await fc.assert(
    fc.asyncProperty(nftStates(table), nftStates(table), fc.subarray([...keys]), async (old, fresh, alike) => {
      // Newer endpoints of the old state may make some frontends those of the release: they leave the overlay.
      const from = (key: string): NftState => (alike.includes(key) ? fresh : old);
      const newer = { ...old, frontends: new Map(keys.flatMap((key) => linesOf(from(key), key))) };
      const rows = await tablesOf(ending, old, fresh, newer);
      expect(lost(rows, await atRest([old, fresh, newer]))).toEqual([]);
    }),
    runs(100),
  );
});
