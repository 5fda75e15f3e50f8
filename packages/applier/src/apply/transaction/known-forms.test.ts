import { KernelError, RehearsalError } from '../../ports/failure.ts';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { FakeKernel } from '../../kernel/fake/fake.fixture.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { cartBundle } from '../../testing/nftables.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';

/** When rules are rehearsed, and what happens to a bundle if that fails. */

let self: Scene;
let rehearsals: number;
let answer: () => Promise<void>;
beforeEach(() => {
  self = scene();
  rehearsals = 0;
  answer = async () => undefined;
  self.kernel.rehearse = (state) => (rehearsals++, answer().then(() => new FakeKernel().rehearse(state)));
});
afterEach(() => self.end());

const first = sampleBundle();
const moreEndpoints = sampleBundle({ services: { 'shop/web': [1, 2, 3] } });
const withoutEndpoints = sampleBundle({ services: { 'shop/web': [] } });

test('does not rehearse forms of rules that are in the kernel, also after a restart', async () => {
  await (await self.start()).reconciler.put(first, true);
  expect(rehearsals).toBe(1);
  const { reconciler } = await self.start();
  expect(await reconciler.put(moreEndpoints, true)).toMatchObject({ kind: 'confirmed' });
  expect(rehearsals).toBe(1);
});

test('rehearses a new form once', async () => {
  await (await self.start()).reconciler.put(first, true);
  const { reconciler } = await self.start();
  for (const bundle of [withoutEndpoints, first, withoutEndpoints]) await reconciler.put(bundle, true);
  expect(rehearsals).toBe(2);
});

test('rehearses a new kind of list in mode nftables once, and no other length', async () => {
  const stickyLocal = {
    'shop/docs': [
      'svc4 { 203.0.113.77 . tcp . 80 : goto s${count}t600 }',
      'near4 { 203.0.113.77 . tcp . 80 }',
      'out4 { 203.0.113.77 . tcp . 80 : goto r${localCount}t600 }',
      'tcp4 { 203.0.113.77 . 80 . ${slot} : 10.244.1.9 . 8080 }',
      'tcp4 { 203.0.113.77 . 80 . ${localSlot} : 10.244.1.9 . 8080 }',
    ]
      .map((element) => `add element inet sluice ${element}\n`)
      .join(''),
  };
  await (await self.start()).reconciler.put(cartBundle([1, 2]), true);
  const { reconciler } = await self.start();
  await reconciler.put(cartBundle([1, 2, 3]), true);
  expect(rehearsals).toBe(1);
  for (const bundle of [cartBundle([1, 2, 3], stickyLocal), cartBundle([1]), cartBundle([1, 2, 3], stickyLocal)])
    expect(await reconciler.put(bundle, true)).toMatchObject({ kind: 'confirmed' });
  expect(rehearsals).toBe(2);
});

test.each([
  ['fails', () => Promise.reject(new KernelError('iptables-restore', 'line 3', 'refused')), 'NODE_REFUSES_RULES'],
  ['cannot run', () => Promise.reject(new RehearsalError('it hangs', 'Look there')), 'NODE_CANNOT_REHEARSE'],
] as const)(
  'changes nothing when the rehearsal %s, and applies the bundle when it passes',
  async (_title, no, code) => {
    const { reconciler, journal } = await self.start();
    answer = no;
    expect(await reconciler.put(first, false)).toMatchObject({ kind: 'refused', refusal: { problems: [{ code }] } });
    expect(await reconciler.rehearse(first)).toMatchObject({ problems: [{ code }] });
    expect([self.kernel.taken, journal.active?.number, journal.record.quarantined]).toEqual([[], undefined, {}]);
    answer = async () => undefined;
    expect(await reconciler.put(first, false)).toMatchObject({ kind: 'confirmed' });
  },
);

test('says why a rehearsal failed and what to do', async () => {
  answer = () => Promise.reject(new RehearsalError('the process behind /run/x hangs', 'Look there'));
  expect(await (await self.start()).reconciler.put(first, true)).toMatchObject({
    refusal: { problems: [{ message: 'Cannot rehearse: the process behind /run/x hangs', hint: 'Look there' }] },
  });
});

test('applies endpoints with known forms although no rehearsal is possible', async () => {
  await (await self.start()).reconciler.put(first, true);
  answer = () => Promise.reject(new RehearsalError('it hangs', 'Look there'));
  const { reconciler } = await self.start();
  expect(await reconciler.put(moreEndpoints, false)).toMatchObject({ kind: 'confirmed' });
});
