import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename } from 'node:path';
import { fileDigest } from '@sluice/bundle';
import { sysctlKeys } from '@sluice/netfilter';
import { atTier, randomOf, seed } from '@sluice/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FakeKernel } from '../../kernel/fake/fake.fixture.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { damages } from '../../testing/damages.fixture.ts';
import { endpointNumbers } from '../../testing/data-plane.fixture.ts';
import { scene, type Scene } from '../../testing/scene.fixture.ts';

/**
 * Each file of a state directory × what a bad disk does to it × what the node does next: the node ends with Services, takes the next release,
 * and has whole files again. `test/netns/boot.test.ts` damages files of the programs on a kernel.
 */

const planes = [
  { layout: 'flat', mode: 'iptables' },
  { layout: 'tree', mode: 'iptables' },
  { layout: 'tree', mode: 'nftables' },
  { layout: 'flat', mode: 'ipvs' },
] as const;
type Plane = (typeof planes)[number];

const nexts = ['a boot', 'the next release', 'a restart with the rules in the kernel'] as const;

const newest = [5, 6, 7];
const bundleOf = ({ mode }: Plane, ...web: readonly number[]): ReadonlyMap<string, string> =>
  sampleBundle({ services: { 'shop/web': web, 'shop/cart': [3] }, mode });
const bare = (): FakeKernel => new FakeKernel({ sysctls: Object.fromEntries(sysctlKeys.map((key) => [key, 0])) });

/** The numbers of the endpoints that packets are sent to. */
async function served(kernel: FakeKernel): Promise<readonly number[]> {
  const { servers } = await kernel.ipvs.observe();
  const real = [...servers.values()].flatMap((one) => [...one.real.values()]).map(({ address }) => address);
  const own = real.map((address) => Number(address.split('.').at(-1)) - 1);
  return [...new Set([...endpointNumbers(kernel), ...own])].toSorted((a, b) => a - b);
}

/** A state directory after two releases and endpoint updates of the second one, in which drift was looked for in between. */
async function history(plane: Plane): Promise<string> {
  const self = scene();
  self.layout = plane.layout;
  const { reconciler } = await self.start();
  for (const web of [[1], [1, 2]]) await reconciler.put(bundleOf(plane, ...web), false);
  await reconciler.put(
    sampleBundle({ services: { 'shop/web': [4], 'shop/cart': [3], 'shop/new': [9] }, mode: plane.mode }),
    false,
  );
  await reconciler.put(bundleOf(plane, 5), false);
  await reconciler.repair();
  for (const web of [[5, 6], newest]) await reconciler.put(bundleOf(plane, ...web), false);
  const directory = mkdtempSync(`${existsSync('/dev/shm') ? '/dev/shm' : tmpdir()}/sluiced-damaged-`);
  cpSync(self.directory, directory, { recursive: true });
  self.end();
  return directory;
}

const filesIn = (directory: string): readonly string[] =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((name) => statSync(`${directory}/${name}`).isFile())
    .toSorted();

/** The objects of the active generation, and their copies, that are not what their names say. */
const damagedObjects = (directory: string): readonly string[] =>
  readdirSync(`${directory}/copies`)
    .flatMap((name) => [`store/${name}`, `copies/${name}`])
    .filter((name) => fileDigest(readFileSync(`${directory}/${name}`, 'utf8')) !== basename(name));

describe.each(planes)('layout $layout, mode $mode', (plane) => {
  let template = '';
  let files: readonly string[] = [];
  beforeAll(async () => {
    template = await history(plane);
    files = filesIn(template);
  });
  afterAll(() => rmSync(template, { recursive: true, force: true }));

  test.each(Object.keys(damages).flatMap((damage) => nexts.map((next) => [damage, next] as const)))(
    'each file, %s, before %s',
    { timeout: 120_000 },
    async (damage, next) => {
      expect(files.length).toBeGreaterThan(10);
      const random = randomOf(seed);
      const isTried = (): boolean => random() < atTier({ quick: 0.3, test: 1 });
      const wrong: string[] = [];
      for (const file of files)
        if (isTried()) wrong.push(...(await wrongAfter(plane, template, file, [damage, next], random)));
      expect(wrong).toEqual([]);
    },
  );

  test('each file of the active generation and its copy: the bundle directory serves after a boot, and the kernel serves on without one', async () => {
    const copies = files.filter((file) => file.startsWith('copies/'));
    expect(copies.length).toBeGreaterThan(2);
    for (const file of copies) {
      const self = scene();
      self.layout = plane.layout;
      cpSync(template, self.directory, { recursive: true });
      const [kernel, booted] = [bare(), bare()];
      const first = await self.start({}, { kernel });
      await first.reconciler.recover();
      await first.reconciler.repair();
      for (const name of [file, file.replace('copies/', 'store/')])
        rmSync(`${self.directory}/${name}`, { force: true });

      const restarted = await self.start({}, { kernel });
      const found = await restarted.reconciler.recover();
      await restarted.reconciler.repair();
      // The rules that are there, or an older generation.
      expect([file, await served(kernel)]).toEqual([file, expect.arrayContaining([3, 5])]);
      expect([file, found?.kind === 'held']).toEqual([file, false]);

      const { reconciler } = await self.start({}, { kernel: booted });
      await reconciler.recover();
      await reconciler.repair();
      expect([file, (await reconciler.put(bundleOf(plane, ...newest), false)).kind]).not.toEqual([file, 'held']);
      expect([file, await served(booted)]).toEqual([file, [3, ...newest]]);
      self.end();
    }
  });
});

describe.each(planes)('layout $layout, mode $mode, with no readable generation left', (plane) => {
  test.each([
    ['no kube-proxy runs: the rules in the kernel serve on', []],
    ["a kube-proxy runs: only rules that can be no one else's are taken", [42]],
  ])('%s, and the next bundle goes in without one', async (_title, kubeProxies) => {
    const template = await history(plane);
    const self = scene();
    self.layout = plane.layout;
    cpSync(template, self.directory, { recursive: true });
    const kernel = bare();
    const first = await self.start({}, { kernel });
    await first.reconciler.recover();
    await first.reconciler.repair();
    for (const place of ['store', 'copies', 'current'])
      rmSync(`${self.directory}/${place}`, { recursive: true, force: true });
    self.kubeProxies = kubeProxies;
    const { reconciler, journal } = await self.start({}, { kernel });
    const found = await reconciler.recover();
    const isShared = plane.layout === 'flat';
    const isHeld = isShared && kubeProxies.length > 0;
    await reconciler.repair();
    expect([found?.kind, journal.halted !== undefined, await served(kernel)]).toEqual([
      isHeld ? 'held' : 'rolled-back',
      isHeld,
      [3, ...newest],
    ]);
    self.kubeProxies = [];
    const next = await self.start({}, { kernel });
    await next.reconciler.recover();
    const outcome = await next.reconciler.put(bundleOf(plane, 8), true);
    await next.reconciler.repair();
    expect([outcome.kind, await served(kernel)]).toEqual(['confirmed', [3, 8]]);
    self.end();
    rmSync(template, { recursive: true, force: true });
  });
});

/** Damages a file of a node, and lets it go on. @returns what is wrong with it then */
async function wrongAfter(
  plane: Plane,
  template: string,
  file: string,
  [damage, next]: readonly [string, (typeof nexts)[number]],
  random: () => number,
): Promise<readonly string[]> {
  const self: Scene = scene();
  self.layout = plane.layout;
  const wrong: string[] = [];
  const must = (isRight: boolean, what: string): void => {
    if (!isRight) wrong.push(`${file}: ${what}`);
  };
  cpSync(template, self.directory, { recursive: true });
  let kernel = bare();
  let node = await self.start({}, { kernel });
  await node.reconciler.recover();
  await node.reconciler.repair();
  must((await served(kernel)).join() === [3, ...newest].join(), 'not served before');
  if (next !== 'the next release') {
    // The process before ended before it looked for drift, which writes copies.
    rmSync(self.directory, { recursive: true });
    cpSync(template, self.directory, { recursive: true });
  }

  const path = `${self.directory}/${file}`;
  if (existsSync(path)) {
    const bytes = damages[damage]?.(readFileSync(path), random);
    if (bytes) writeFileSync(path, bytes);
    else rmSync(path);
  }

  if (next !== 'the next release') {
    if (next === 'a boot') kernel = bare();
    node = await self.start({}, { kernel });
    const found = await node.reconciler.recover();
    must(found?.kind !== 'held', JSON.stringify(found));
    await node.reconciler.repair();
    const now = await served(kernel);
    must(now.includes(3) && now.includes(5), `serves ${now.join()} after ${next}`);
  }
  // What the daemon finds in the bundle directory, and then a release.
  const again = await node.reconciler.put(bundleOf(plane, ...newest), true);
  must(['same', 'confirmed', 'updated'].includes(again.kind), JSON.stringify(again));
  const services = { 'shop/web': [8], 'shop/cart': [3], 'shop/new': [9] };
  const outcome = await node.reconciler.put(sampleBundle({ services, mode: plane.mode }), true);
  must(outcome.kind === 'confirmed', JSON.stringify(outcome));
  await node.reconciler.repair();
  must((await served(kernel)).join() === '3,8,9', `serves ${(await served(kernel)).join()}`);
  must(damagedObjects(self.directory).length === 0, `stay damaged: ${damagedObjects(self.directory).join()}`);
  must(readdirSync(`${self.directory}/copies`).length > 2, 'no copies');

  const booted = bare();
  const last = await self.start({}, { kernel: booted });
  must(last.journal.halted === undefined, 'halted at last');
  await last.reconciler.recover();
  await last.reconciler.repair();
  must((await served(booted)).join() === '3,8,9', `serves ${(await served(booted)).join()} after another boot`);
  self.end();
  return wrong;
}
