import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { emptyTable } from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { limits } from '../limits.ts';
import type { Generation } from '../ports/journal.ts';
import type { NodeState } from '../ports/node-state.ts';
import { confirm, here, inOwnDirectory, nothing, open, opening } from './journal.fixture.ts';

/** Releases of a state with many chains: each is stored as what it changes. */

inOwnDirectory();

const many = 1200;

/** Some Services of each plane; the numbered ones have another port after so many steps. */
const planes = {
  iptables: (step: number): NodeState => {
    const chains = new Map<string, readonly string[]>();
    for (let at = step; at < step + many; at++) {
      const name = `SLU-SVC-${String(at).padStart(16, 'A')}.${at % 3 === 0 ? step : 0}`;
      chains.set(name, [`-m mark --mark ${at} -j RETURN`]);
    }
    return { ...nothing, families: { ipv4: { filter: emptyTable, nat: { chains, jumps: [] } } } };
  },
  nftables: (step: number): NodeState => {
    const frontends = new Map<string, readonly string[]>();
    const services = new Map<string, readonly string[]>();
    for (let at = step; at < step + many; at++) {
      const name = `10.96.${at >> 8}.${at & 255} . tcp . 80`;
      frontends.set(name, ['cluster-ip', `endpoint 10.244.1.${step & 255} . 8080`]);
      services.set(`shop/web-${at}`, [name, `10.96.0.0 . udp . ${step}`]);
    }
    return { ...nothing, nft: { settings: ['table 4 address'], frontends }, services };
  },
};
/** The whole of a state, with plain maps. */
const whole = ({ families, nft, services }: NodeState): unknown => [
  new Map(families.ipv4?.nat.chains),
  new Map(nft?.frontends),
  new Map(services),
];
const bytesOf = (folder: string): number =>
  readdirSync(`${here()}/${folder}`).reduce((sum, name) => sum + statSync(`${here()}/${folder}/${name}`).size, 0);
/** A state with one Service of a step more, as a release of one Service is. */
function withOne(state: NodeState, of: NodeState, step: number): NodeState {
  const name = `SLU-SVC-${String(step).padStart(16, 'B')}.0`;
  const { ipv4 } = state.families;
  const [nft, services] = [state.nft, state.services];
  return {
    ...of,
    ...(ipv4
      ? { families: { ipv4: { ...ipv4, nat: { ...ipv4.nat, chains: new Map([...ipv4.nat.chains, [name, []]]) } } } }
      : {}),
    ...(nft
      ? { nft: { ...nft, frontends: new Map([...nft.frontends, [`10.97.0.1 . tcp . ${step}`, ['cluster-ip']]]) } }
      : {}),
    ...(services ? { services: new Map([...services, [`shop/new-${step}`, [name]]]) } : {}),
  };
}

test.each(Object.entries(planes))(
  'mode %s: every kept generation is read back',
  { timeout: 60_000 },
  async (_mode, of) => {
    const journal = open();
    let state = of(0);
    await confirm(journal, 'v0', state);
    const known = new Map([[1, state]]);
    const before = bytesOf('store');
    for (let step = 1; step <= limits.deltasMax + 5; step++) {
      state = withOne(state, of(0), step);
      await confirm(journal, `v${step}`, state);
      known.set(step + 1, state);
      await journal.tidy();
    }
    // One whole state, and what so many releases changed.
    expect(bytesOf('store') / before).toBeLessThan(1.5);
    const kept = journal.record.kept.filter(({ number }) => number > 0);
    expect(kept).toHaveLength(limits.generationsKept);
    const again = open();
    for (const { number } of kept)
      expect([number, whole((await again.generation(number))?.state ?? nothing)]).toEqual([
        number,
        whole(known.get(number) as NodeState),
      ]);
    // Another plane, or other Services: nothing is left to differ from.
    await confirm(journal, 'other', of(many));
    expect(whole(open().active?.state ?? nothing)).toEqual(whole(of(many)));
    for (let step = 1; step <= limits.generationsKept; step++)
      await confirm(journal, `w${step}`, withOne(of(many), of(many), step));
    await journal.tidy();
    expect(bytesOf('store') / before).toBeLessThan(1.6);
  },
);

test.each(Object.entries(planes))(
  'mode %s: each file of the store is written again from its copy',
  async (_mode, of) => {
    const journal = open();
    await confirm(journal, 'v0', of(0));
    const state = withOne(of(0), of(0), 1);
    await confirm(journal, 'v1', state);
    const copies = readdirSync(`${here()}/copies`);
    const deltas = copies.filter((name) => readFileSync(`${here()}/copies/${name}`, 'utf8').startsWith('{"schema":3'));
    expect(deltas).toHaveLength(1);
    for (const name of copies) {
      rmSync(`${here()}/store/${name}`);
      const next = open();
      expect([name, whole(next.active?.state ?? nothing)]).toEqual([name, whole(state)]);
      await next.tidy();
      expect(readFileSync(`${here()}/store/${name}`, 'utf8')).toBe(readFileSync(`${here()}/copies/${name}`, 'utf8'));
    }
  },
);

test('a state that had the same revision, but that the disk had no room for, is not taken for the stored one', async () => {
  const journal = open();
  const of = planes.iptables;
  await confirm(journal, 'v0', of(0));
  const stored = journal.active as Generation;
  journal.chooseUnwritten({ ...stored, revision: 1, state: withOne(of(0), of(0), 1) }, stored);
  const update = withOne(of(0), of(0), 2);
  await journal.begin({ ...opening('v0', update), changeKind: 'endpoints' });
  await journal.commit();
  expect(whole((await journal.finish()).state)).toEqual(whole(update));
  const release = withOne(update, update, 3);
  await confirm(journal, 'v1', release);
  expect(whole(open().active?.state ?? nothing)).toEqual(whole(release));
});

test('names of Services that changed where sets did not have no delta in mode ipvs, which an older sluiced reads', async () => {
  const journal = open();
  const at = (step: number): NodeState => {
    const { families } = planes.iptables(0);
    return { ...nothing, families, services: new Map([['shop/web', [String(step)]]]) };
  };
  await confirm(journal, 'v0', at(0));
  await confirm(journal, 'v1', at(1));
  const texts = readdirSync(`${here()}/store`).map((name) => readFileSync(`${here()}/store/${name}`, 'utf8'));
  expect(texts.filter((text) => text.startsWith('{"schema":3'))).toEqual([]);
  expect(new Map(open().active?.state.services)).toEqual(at(1).services);
});
