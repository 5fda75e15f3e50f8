import { frontendLines, type NftState, readFrontend } from '@sluice/netfilter';
import { runs } from '@sluice/testing';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { FakeKernel } from '../../kernel/fake/fake.fixture.ts';
import { decodeTable } from './decode.ts';
import { planNftInPlace, planNftProbation } from './plan.ts';
import { holdsByDefault } from './repair.ts';
import { nftStates, otherSettings } from './states.fixture.ts';

/** Where a frontend has no endpoint the kernel does not show how it would choose one. */
const shown = ({ settings, frontends }: NftState): unknown => ({
  settings: settings.toSorted(),
  frontends: new Map(
    [...frontends].map(([key, lines]) => {
      const { affinitySeconds, scheduler, ...rest } = readFrontend(key, lines);
      const isShown = rest.endpoints.length + rest.local.length > 0;
      const choice = affinitySeconds === undefined ? (scheduler ? { scheduler } : {}) : { affinitySeconds };
      const { endpoints, local } = rest;
      return [
        key,
        frontendLines({
          ...rest,
          ...(isShown ? choice : {}),
          ranges: rest.ranges.toSorted(),
          // Slots that come in turn by weight do not show the order of the list.
          ...(rest.weights || scheduler?.startsWith('maglev')
            ? { endpoints: endpoints.toSorted(), local: local.toSorted() }
            : {}),
        }),
      ];
    }),
  ),
});

/** Frontends that packets cannot tell from none. */
const visible = (state: NftState): NftState => ({
  ...state,
  frontends: new Map([...state.frontends].filter(([, lines]) => lines.some((line) => line !== 'cluster-ip'))),
});

test('a state is read back from the table, also beside a release on probation', async () => {
  await fc.assert(
    fc.asyncProperty(nftStates(otherSettings), nftStates(), async (old, fresh) => {
      const { nft } = new FakeKernel();
      const state = visible(old);
      const { first } = planNftInPlace({ mend: [], held: undefined, exists: false }, state);
      for (const step of first) await nft.apply(step);
      const read = async (): Promise<unknown> => {
        const observed = await nft.observe();
        const decoded = observed && decodeTable(observed, state);
        return decoded && shown(decoded);
      };
      expect(await read()).toEqual(shown(state));
      const held = first.at(-1)?.leadsTo;
      if (!held) throw new Error('nothing was loaded');
      const { stage } = planNftProbation({ mend: [], held, exists: true }, state, {
        ...fresh,
        settings: state.settings,
      });
      for (const step of stage) await nft.apply(step);
      await nft.load('add element inet sluice trial4 { 0.0.0.0/0 timeout 30s }\n');
      const observed = await nft.observe();
      expect(observed && holdsByDefault(observed, state)).toBe(true);
      expect(await read()).toEqual(shown(state));
    }),
    runs(100),
  );
});

test('a table with another rule is not read', async () => {
  const { nft } = new FakeKernel();
  const state: NftState = { settings: ['table 4 address'], frontends: new Map() };
  for (const step of planNftInPlace({ mend: [], held: undefined, exists: false }, state).first) await nft.apply(step);
  await nft.load('add rule inet sluice services4 accept\n');
  const observed = await nft.observe();
  expect(observed && [decodeTable(observed), holdsByDefault(observed, state)]).toEqual([undefined, false]);
});
