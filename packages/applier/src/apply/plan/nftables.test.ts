import type { KernelError } from '../../ports/failure.ts';
import { afterEach, describe, expect, test } from 'vitest';
import { nftBundle } from '../../../../bundle/src/virtual/nft.fixture.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { cartBundle, pod, settledElements } from '../../testing/nftables.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';
import { repairOf } from '../../observe/status/repairs.ts';
import type { NodeState } from '../../ports/node-state.ts';

let self: Scene = scene();
afterEach(() => self.end());

const withCart = (...pods: readonly number[]): ReadonlyMap<string, string> => cartBundle(pods);

/** What packets to shop/cart are sent to: by the main maps, and on probation. */
async function cartOf(): Promise<{ readonly main: readonly string[]; readonly trial: readonly string[] }> {
  const observed = await self.kernel.nft.observe();
  const list = (map: string): readonly string[] => {
    const verdict = observed?.elements.get(map)?.get('10.96.0.10 . 6 . 80') ?? '';
    const [, count, half] = /^goto n(\d+)(b?)$/.exec(verdict) ?? [];
    return Array.from({ length: Number(count ?? 0) }, (_, at) => {
      const slot = at + (half === 'b' ? 65_536 : 0);
      return observed?.elements.get('tcp4')?.get(`10.96.0.10 . 80 . ${slot}`) ?? 'nothing';
    });
  };
  return { main: list('svc4'), trial: list('tsvc4') };
}

/** The table holds a state: nothing on probation, nothing left over. */
async function expectSettled(state: NodeState | undefined): Promise<void> {
  const { held, expected } = await settledElements(self.kernel, state);
  expect(held).toEqual(expected);
}

const commands = (from: number): readonly string[] =>
  self.kernel.taken.slice(from).map((step) => ('text' in step ? `${step.kind}: ${step.because}` : step.kind));

test('loads the table whole, with no tool of iptables', async () => {
  self = scene();
  const { reconciler, journal } = await self.start();
  expect(await reconciler.put(nftBundle(), true)).toMatchObject({ kind: 'confirmed', steps: 1 });
  expect(commands(0)).toEqual(['nft: loads the whole table']);
  await expectSettled(journal.active?.state);
  expect(await reconciler.put(nftBundle(), true)).toMatchObject({ kind: 'same' });
});

test('a release goes beside the active one, by the switch, and leaves nothing behind', async () => {
  self = scene();
  const { reconciler, journal } = await self.start();
  await reconciler.put(withCart(1, 2), true);
  const from = self.kernel.taken.length;
  const seen: unknown[] = [];
  self.health = () => {
    void self.kernel.switch?.look().then((look) => seen.push(look?.nat));
    return true;
  };
  expect(await reconciler.put(withCart(3), true)).toMatchObject({ kind: 'confirmed' });
  expect(commands(from)).toEqual([
    'nft: 1 frontends beside the active ones',
    'nft: the release is the default',
    'nft: removes what no verdict leads to',
  ]);
  expect(seen).toEqual([undefined, 'on']);
  expect(await cartOf()).toEqual({ main: [pod(3)], trial: [] });
  await expectSettled(journal.active?.state);
});

test('a failing probe rolls a release back, and nothing of it stays', async () => {
  self = scene();
  const { reconciler, journal } = await self.start();
  await reconciler.put(withCart(1, 2), true);
  let rounds = 0;
  self.health = () => ++rounds < 2;
  expect(await reconciler.put(withCart(3), true)).toMatchObject({ kind: 'rolled-back' });
  expect(await cartOf()).toEqual({ main: [pod(1), pod(2)], trial: [] });
  await expectSettled(journal.active?.state);
});

test('an endpoint update changes slots in place, and collects the rest later', async () => {
  self = scene();
  const { reconciler, journal } = await self.start();
  await reconciler.put(withCart(1, 2, 3), true);
  const from = self.kernel.taken.length;
  // 2 left, 4 came: one slot.
  expect(await reconciler.put(withCart(1, 3, 4), true)).toMatchObject({ kind: 'confirmed' });
  expect(await cartOf()).toEqual({ main: [pod(1), pod(4), pod(3)], trial: [] });
  expect(self.kernel.taken.slice(from).map((step) => ('text' in step ? step.text : ''))).toEqual([
    [
      'delete element inet sluice tcp4 { 10.96.0.10 . 80 . 1 }',
      'add element inet sluice loop4 { 10.244.1.4 . 10.244.1.4 }',
      `add element inet sluice tcp4 { 10.96.0.10 . 80 . 1 : ${pod(4)} }`,
      '',
    ].join('\n'),
    'delete element inet sluice loop4 { 10.244.1.2 . 10.244.1.2 }\n',
  ]);
  expect(await reconciler.put(withCart(1, 3), true)).toMatchObject({ kind: 'confirmed' });
  expect(await cartOf()).toEqual({ main: [pod(1), pod(3)], trial: [] });
  await expectSettled(journal.active?.state);
});

describe.each([
  ['deleted an element', 'delete element inet sluice svc4 { 10.96.0.10 . 6 . 80 }\n'],
  ['added one', 'add element inet sluice svc4 { 10.96.0.99 . 6 . 80 : drop }\n'],
  [
    'changed a slot',
    `delete element inet sluice tcp4 { 10.96.0.10 . 80 . 0 }\nadd element inet sluice tcp4 { 10.96.0.10 . 80 . 0 : ${pod(9)} }\n`,
  ],
  ['removed the rules of a list', 'flush chain inet sluice n2\n'],
  ['removed a rule of the table', 'flush chain inet sluice services4\n'],
  ['added a base chain', 'add chain inet sluice other { type filter hook input priority 5; policy drop; }\n'],
  [
    'added a chain and a set',
    'add chain inet sluice other\nadd rule inet sluice other goto n2\nadd set inet sluice own4 { type ipv4_addr; }\n',
  ],
  ['added an object of another kind', 'add counter inet sluice other\n'],
  ['removed the table', 'delete table inet sluice\n'],
  ['turned the switch on', 'add element inet sluice trial4 { 0.0.0.0/0 }\n'],
  [
    'left an overlay',
    'add element inet sluice tkey4 { 10.96.0.10 . 6 . 80 }\nadd element inet sluice tsvc4 { 10.96.0.10 . 6 . 80 : accept }\n',
  ],
])('another program %s', (_title, text) => {
  test('is repaired, and seen before', async () => {
    self = scene();
    const { reconciler, journal } = await self.start();
    await reconciler.put(withCart(1, 2), true);
    await self.kernel.nft.load(text);
    expect(await reconciler.differences()).not.toEqual([]);
    expect(await reconciler.repair()).toBeGreaterThan(0);
    await expectSettled(journal.active?.state);
    expect(await reconciler.differences()).toEqual([]);
    expect(await reconciler.repair()).toBe(0);
  });

  test('does not keep a release or an endpoint update from going in', async () => {
    self = scene();
    const { reconciler, journal } = await self.start();
    await reconciler.put(withCart(1, 2), true);
    await self.kernel.nft.load(text);
    expect((await reconciler.put(withCart(1, 2, 3), true)).kind).toBe('confirmed');
    await reconciler.repair();
    await expectSettled(journal.active?.state);
  });
});

test('a repair names what another program added', async () => {
  self = scene();
  const { reconciler } = await self.start();
  await reconciler.put(withCart(1, 2), true);
  await self.kernel.nft.load('add chain inet sluice other { type filter hook input priority 5; policy drop; }\n');
  expect(await reconciler.differences()).toEqual([expect.stringContaining('another program added chain other')]);
  await reconciler.repair();
  expect(repairOf(1, [], reconciler.removed).what).toEqual(['nft add chain inet sluice other']);
  await reconciler.repair();
  expect(reconciler.removed).toEqual([]);
});

test('cleanup removes the table', async () => {
  self = scene();
  const { reconciler } = await self.start();
  await reconciler.put(nftBundle(), true);
  expect(await reconciler.cleanup()).toBe(1);
  expect(await self.kernel.nft.observe()).toBeUndefined();
});

test('a table that this state directory did not make is refused', async () => {
  self = scene();
  await (await self.start()).reconciler.put(nftBundle(), true);
  const { kernel } = self;
  self.end();
  self = scene();
  await self.kernel.nft.load(textOf(await kernel.nft.observe()));
  expect(await (await self.start()).reconciler.put(nftBundle(), true)).toMatchObject({
    refusal: { problems: [{ code: 'NODE_CHAINS_NOT_OURS' }] },
  });
});

const textOf = (observed: unknown): string => (observed ? 'table inet sluice {\n}\n' : '');

describe.each(['flat', 'tree'] as const)('between modes iptables, in layout %s, and nftables', (layout) => {
  const natOf = (): readonly string[] => self.kernel.save('ipv4').match(/(?<=^:)(?:KUBE|SLUICE)-\S+/gm) ?? [];

  test('the new data plane comes before the old one goes, both ways', async () => {
    self = scene();
    self.layout = layout;
    const { reconciler, journal } = await self.start();
    await reconciler.put(sampleBundle(), true);
    expect(natOf().length).toBeGreaterThan(0);
    const from = self.kernel.taken.length;
    expect(await reconciler.put(nftBundle(), true)).toMatchObject({ kind: 'confirmed' });
    expect(self.kernel.taken[from]?.kind).toBe('nft');
    expect(natOf()).toEqual([]);
    await expectSettled(journal.active?.state);
    expect(await reconciler.put(sampleBundle(), true)).toMatchObject({ kind: 'confirmed' });
    expect(self.kernel.taken.at(-1)?.kind).toBe('nft');
    expect(await self.kernel.nft.observe()).toBeUndefined();
    expect(natOf().length).toBeGreaterThan(0);
  });

  test('a failing probe rolls back to the other data plane', async () => {
    self = scene();
    self.layout = layout;
    const { reconciler } = await self.start();
    await reconciler.put(sampleBundle(), true);
    const before = self.kernel.save('ipv4');
    let rounds = 0;
    self.health = () => ++rounds < 2;
    expect(await reconciler.put(nftBundle(), true)).toMatchObject({ kind: 'rolled-back' });
    expect(self.kernel.save('ipv4')).toBe(before);
    expect(await self.kernel.nft.observe()).toBeUndefined();
  });

  test('mode iptables comes also where another program removed the table', async () => {
    self = scene();
    self.layout = layout;
    await (await self.start()).reconciler.put(nftBundle(), true);
    await self.kernel.nft.load('delete table inet sluice\n');
    const { reconciler } = await self.start();
    expect(await reconciler.put(sampleBundle(), true)).toMatchObject({ kind: 'confirmed' });
    expect(await reconciler.differences()).toEqual([]);
  });

  test('a manual rollback leads to the other data plane', async () => {
    self = scene();
    self.layout = layout;
    const { reconciler, journal } = await self.start();
    await reconciler.put(sampleBundle(), true);
    const before = self.kernel.save('ipv4');
    await reconciler.put(nftBundle(), true);
    const old = await journal.generation(1);
    expect(await reconciler.rollBackTo(old as NonNullable<typeof old>)).toMatchObject({ kind: 'confirmed' });
    expect(self.kernel.save('ipv4')).toBe(before);
    expect(await self.kernel.nft.observe()).toBeUndefined();
  });
});

test('a refused transaction leaves the table as it was', async () => {
  self = scene();
  await (await self.start()).reconciler.put(nftBundle(), true);
  const before = await self.kernel.nft.observe();
  const error = (text: string): Promise<KernelError | undefined> =>
    self.kernel.nft.load(text).then(
      () => undefined,
      (why: KernelError) => why,
    );
  expect(
    await error('flush set inet sluice svc4\ndelete element inet sluice svc4 { 10.96.0.10 . 6 . 80 }\n'),
  ).toBeDefined();
  expect(await self.kernel.nft.observe()).toEqual(before);
});

test.each([['nft crashes', { why: '/usr/sbin/nft crashed', hint: 'Install a newer one' }]])(
  'a bundle is refused where %s',
  async (_title, lacks) => {
    self = scene();
    self.kernel.nft.lacks = lacks;
    expect(await (await self.start()).reconciler.put(nftBundle(), true)).toMatchObject({
      refusal: {
        problems: [{ code: 'NODE_TOOL_MISSING', message: expect.stringContaining(lacks.why), hint: lacks.hint }],
      },
    });
    expect(await self.kernel.nft.exists()).toBe(false);
  },
);
