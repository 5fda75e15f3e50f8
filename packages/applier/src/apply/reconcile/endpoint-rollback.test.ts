import { afterEach, describe, expect, test } from 'vitest';
import { ipvsBundle } from '../../../../bundle/src/virtual/bundle.fixture.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { dataPlanes, endpointNumbers } from '../../testing/data-plane.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';

let node: Scene = scene();
afterEach(() => node.end());

type Services = Readonly<Record<string, readonly number[]>>;
const old: Services = { 'shop/web': [1], 'shop/cart': [3] };
/** A release with another endpoint of shop/web, and a new Service. */
const moved: Services = { ...old, 'shop/web': [9], 'shop/new': [6] };

const endpoints = (): readonly number[] => endpointNumbers(node.kernel);
const serves = (endpoint: number): boolean => endpoints().includes(endpoint);

describe.each(dataPlanes)('layout $layout, mode $mode', ({ layout, mode }) => {
  const bundle = (services: Services) => sampleBundle({ services, families: ['ipv4', 'ipv6'], mode });
  /** The name of shop/web in messages, by family: the sample of mode ipvs has one; it and the table of mode nftables know addresses. */
  const web = {
    iptables: ['shop/web', 'shop/web'],
    ipvs: ['10.96.0.11:80/TCP'],
    nftables: ['10.96.0.11:80/TCP', '[fd00:96::a]:80/TCP'],
  }[mode];
  const moves = '(10.244.0.10:8080 removed, 10.244.0.2:8080 added)';
  const start = async () => {
    node = scene();
    node.layout = layout;
    const started = await node.start();
    await started.reconciler.put(bundle(old), false);
    return started;
  };

  test('restores the old endpoints when the newest ones break a probe that passed before the release', async () => {
    const { reconciler, journal } = await start();
    node.health = () => serves(1);
    const outcome = await reconciler.put(bundle(moved), false);
    expect(outcome).toMatchObject({
      kind: 'rolled-back',
      because: expect.stringContaining(
        `health failed: web (status 500); old endpoints restored, for the newest ones fail web, too: ${web.length === 1 ? `${web[0]} ${moves}` : `${web[0]} ${moves}, ${web[1]}`}`,
      ),
    });
    expect(endpoints()).toEqual([1, 3]);
    expect(journal.open).toBeUndefined();
    expect(await reconciler.repair()).toBe(0);
  });

  test('keeps the newest endpoints when the release alone breaks a probe', async () => {
    const { reconciler } = await start();
    node.health = () => !serves(6);
    expect(await reconciler.put(bundle(moved), false)).toMatchObject({
      kind: 'rolled-back',
      because: expect.stringMatching(/; the newest endpoints stay: with them the probes pass again$/),
    });
    expect(endpoints()).toEqual([3, 9]);
  });

  test('keeps the newest endpoints when a probe fails with the old ones, too', async () => {
    const { reconciler } = await start();
    let asked = 0;
    node.health = () => asked++ === 0;
    expect(await reconciler.put(bundle(moved), false)).toMatchObject({
      kind: 'rolled-back',
      because: expect.stringMatching(/; the newest endpoints stay: web failed with the old ones, too$/),
    });
    expect(endpoints()).toEqual([3, 9]);
    expect(node.declined.size).toBe(0);
  });

  test('does not mention endpoints when a failed release changes none', async () => {
    const { reconciler } = await start();
    node.health = () => !serves(6);
    expect(await reconciler.put(bundle({ ...old, 'shop/new': [6] }), false)).toEqual({
      kind: 'rolled-back',
      because: 'health failed: web (status 500)',
    });
  });

  test('leaves out declined endpoints until they change, also after a restart, and forgets them with the next release', async () => {
    const { reconciler } = await start();
    node.health = () => !serves(9);
    await reconciler.put(bundle(moved), false);
    await reconciler.put(bundle(moved), false);
    expect(endpoints(), 'the same version').toEqual([1, 3]);
    const next = await node.start({ releasesPerHour: 1 });
    await next.reconciler.put(bundle({ ...moved, 'shop/cart': [3, 4] }), false);
    expect(endpoints(), 'a newer one that waits, with endpoints of another Service').toEqual([1, 3, 4]);
    await next.reconciler.put(bundle({ ...moved, 'shop/web': [5], 'shop/cart': [3, 4] }), false);
    expect(endpoints(), 'others').toEqual([3, 4, 5]);
    expect(node.declined.size).toBeGreaterThan(0);
    expect((await next.reconciler.put(bundle({ ...moved, 'shop/web': [5] }), true)).kind).toBe('confirmed');
    expect(node.declined.size).toBe(0);
  });

  test('names the failing probes of a confirmed release', async () => {
    const { reconciler, journal } = await start();
    node.health = () => false;
    const outcome = await reconciler.put(bundle({ ...old, 'shop/new': [6] }), false);
    expect(outcome).toMatchObject({ kind: 'confirmed', failing: ['web'] });
    expect(journal.record.history.at(-1)).toMatchObject({ what: 'confirmed', because: 'with failing probes: web' });
  });

  test('runs the baseline probes once, before the early endpoints of a release', async () => {
    const { reconciler } = await start();
    const seen: (readonly number[])[] = [];
    node.health = () => (seen.push(endpoints()), true);
    await reconciler.put(bundle(moved), false);
    expect(seen).toEqual([
      [1, 3],
      [3, 6, 9],
    ]);
  });
});

test('mode ipvs: restores the old endpoints when the newest ones break a probe', async () => {
  node = scene();
  const { reconciler } = await node.start();
  await reconciler.put(ipvsBundle, false);
  const web = 'profiles/default/services/shop/web.ipvs';
  const text = (ipvsBundle.get(web) ?? '').replaceAll('10.244.2.6', '10.244.2.66');
  const changed = new Map([...ipvsBundle, [web, text.replaceAll(' -s rr', ' -s wrr')]]);
  const real = async (): Promise<readonly string[]> =>
    [...((await node.kernel.ipvs.observe()).servers.get('10.96.0.10:80/TCP')?.real.values() ?? [])]
      .filter(({ weight }) => weight > 0)
      .map(({ address }) => address);
  const before = await real();
  let asked = 0;
  node.health = () => asked++ === 0 || asked > 3;
  expect(await reconciler.put(changed, false)).toMatchObject({
    kind: 'rolled-back',
    because: expect.stringContaining('old endpoints restored, for the newest ones fail web, too: 10.96.0.10:80/TCP'),
  });
  expect(await real()).toEqual(before);
});
