import {
  frontendLines,
  type NftState,
  type Placement,
  printNft,
  printNftTable,
  readListName,
  settledPlacement,
} from '@sluice/netfilter';
import { expect, test } from 'vitest';
import { FakeKernel } from '../../kernel/fake/fake.fixture.ts';
import { decodeTable } from './decode.ts';
import type { ObservedNft } from './observed.ts';
import { planNftInPlace } from './plan.ts';
import { holdsByDefault, repairTable } from './repair.ts';

const [one, other] = ['10.96.0.10 . tcp . 80', '10.96.0.10 . tcp . 81'];

/** Frontends of one address, each with these pods. */
const stateOf = (lists: Readonly<Record<string, readonly string[]>>): NftState => ({
  settings: ['table 4 address'],
  frontends: new Map(
    Object.entries(lists).map(([key, endpoints]) => [
      key,
      frontendLines({
        isClusterIP: true,
        ranges: [],
        endpoints,
        local: [],
        here: endpoints.map((pod) => pod.split(' ')[0] ?? '').toSorted(),
      }),
    ]),
  ),
});

const [first, second, third] = ['10.244.1.1 . 8080', '10.244.1.2 . 8080', '10.244.1.3 . 8080'] as const;

test('a pod that left one of two frontends leaves nothing to remove later', () => {
  const held = settledPlacement(stateOf({ [one]: [first, second], [other]: [first] }), new Map());
  const desired = stateOf({ [one]: [third, second], [other]: [first] });
  const steps = planNftInPlace({ mend: [], held, exists: true }, desired);
  expect(steps.late).toEqual([]);
  expect(steps.first).toHaveLength(1);
  const after = steps.first[0]?.leadsTo;
  expect(after?.left.size).toBe(0);
  // `sharedId` of loop4 10.244.1.1.
  expect(after?.uses.get('l\x0a\xf4\x01\x01')).toBe(1);
});

test('chains of lengths that no list has any more are removed in the late step, once there are many', async () => {
  const { nft } = new FakeKernel();
  const pods = Array.from({ length: 70 }, (_, at) => `10.244.1.${at + 1} . 8080`);
  let held: Placement | undefined;
  const lengths: number[] = [];
  for (let count = 70; count > 0; count--) {
    const desired = stateOf({ [one]: pods.slice(0, count), [other]: [first] });
    const { first: steps, late } = planNftInPlace({ mend: [], held, exists: held !== undefined }, desired);
    expect(steps.map(({ text }) => text).join('')).not.toContain('delete chain');
    for (const step of [...steps, ...late]) await nft.apply(step);
    held = [...steps, ...late].at(-1)?.leadsTo;
    const chains = [...((await nft.observe())?.chains.keys() ?? [])].filter((name) => readListName(name));
    lengths.push(chains.length);
    expect([...(held?.chains.keys() ?? [])].toSorted()).toEqual(chains.toSorted());
  }
  expect([Math.max(...lengths), lengths.at(-1)]).toEqual([66, 5]);
});

test('a table with the text of an older edition is changed like one with the newest, and stays until all of it is loaded', async () => {
  const { nft } = new FakeKernel();
  const state = stateOf({ [one]: [first] });
  const options = { detector: 'address', masqueradeAll: false } as const;
  await nft.load(printNft(state).replace(printNftTable(options), printNftTable(options, 1)));
  const read = async (): Promise<ObservedNft> => (await nft.observe()) as ObservedNft;
  expect(holdsByDefault(await read(), state)).toBe(true);
  expect(decodeTable(await read())).toEqual(state);
  const desired = stateOf({ [one]: [first, second] });
  const change = repairTable(await read(), desired);
  expect(change.first).not.toContain('table inet sluice {');
  await nft.load(change.first);
  expect(holdsByDefault(await read(), desired)).toBe(true);
  await nft.load('flush chain inet sluice ranges4\n');
  await nft.load(repairTable(await read(), desired).first);
  expect((await read()).chains.get('ranges4')?.at(-1)).toContain('ct protocol');
});
