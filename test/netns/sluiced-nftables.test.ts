// @module-tag quick
import { rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import { writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { cartBundle } from '../../packages/applier/src/testing/nftables.fixture.ts';
import { inPlace, nftOf, nftVersions } from '../nft/newer.ts';
import { ownersOf } from '../nft/owned-node.ts';
import { needBackend, needKernel } from './privileges.ts';
import { SluicedNode, until, web } from './sluiced-node.ts';

/** `sluiced` in mode nftables on the real kernel, in a network namespace with a /run of its own. */

let node: SluicedNode;
beforeEach(needKernel);

/** Replaces the bundle of the node. */
function publish(files: ReadonlyMap<string, string>): void {
  rmSync(`${node.directory}/rendered`, { recursive: true, force: true });
  writeBundle(`${node.directory}/rendered`, files);
}

const list = async (): Promise<string> => node.tool(['nft', '-n', 'list', 'table', 'inet', 'sluice']);
const tables = async (): Promise<string> => node.tool(['nft', 'list', 'tables', 'inet']);
/** The elements of shop/cart. */
const cart = async (): Promise<readonly string[]> =>
  (await list()).match(/10\.96\.0\.10 \. (?:6|80) \. [^,}\n]*/g)?.map((text) => text.trim()) ?? [];

/** A listing up to its chains. */
const setsOf = (listing: string): string => listing.slice(0, listing.indexOf('\tchain '));

/** Without the tools of the other modes. */
const onlyNft = ['xtables-nft-multi', 'xtables-legacy-multi', 'ipset', 'ipvsadm']
  .map((tool) => `mount --bind /dev/null /usr/sbin/${tool} &&`)
  .join(' ');

describe.each(nftVersions)('sluiced in mode nftables with the %s nft', { timeout: 120_000 }, (version) => {
  const found = nftOf(version);
  beforeEach(async (context) => {
    if ('lack' in found) context.skip(found.lack);
    const made = await SluicedNode.make(inPlace(found));
    context.onTestFinished(() => made.remove());
    node = made;
  });

  test('applies, updates, repairs, rolls back and cleans up, without iptables and ipset', async () => {
    node.writeConfig('auto');
    const sluiced = (...args: readonly string[]): ReturnType<typeof node.sluiced> =>
      node.sluicedAfter(onlyNft, ...args);
    const apply = (...more: readonly string[]): ReturnType<typeof node.sluiced> =>
      sluiced('apply', `${node.directory}/rendered`, ...more);
    publish(cartBundle([1, 2]));
    expect(await sluiced('preflight', `${node.directory}/rendered`, '--verbose')).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/mode nftables \(nftables v[^)]*\).*\n(?:.*\n)*.*rehearsals \(in a child/),
    });
    expect((await node.tool(['nft', '--version'])).includes('v1.1.')).toBe(version === 'newer');
    expect((await apply('--dry-run')).exitCode).toBe(1);
    expect(await tables()).toBe('');
    expect(await apply()).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('confirmed') });
    expect((await apply('--dry-run')).exitCode).toBe(0);
    expect(await cart()).toEqual([
      '10.96.0.10 . 6 . 80 : goto n2',
      '10.96.0.10 . 80 . 0 : 10.244.1.1 . 8080',
      '10.96.0.10 . 80 . 1 : 10.244.1.2 . 8080',
    ]);
    const first = await list();
    publish(cartBundle([1, 2, 3]));
    expect(await apply()).toMatchObject({ exitCode: 0 });
    expect(await cart()).toContain('10.96.0.10 . 80 . 2 : 10.244.1.3 . 8080');
    expect(node.journal()?.current).toMatchObject({ number: 1, revision: 1 });
    publish(cartBundle([7]));
    expect(await apply()).toMatchObject({ exitCode: 0 });
    expect(await cart()).toEqual(['10.96.0.10 . 6 . 80 : goto n1b', '10.96.0.10 . 80 . 65536 : 10.244.1.7 . 8080']);
    const good = await list();
    expect(good).not.toMatch(/(?:trial|tkey|tsvc)[46] \{[^}]*elements/);
    expect(await sluiced('status')).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('kernel      holds the confirmed'),
    });
    await node.tool(['nft', 'delete', 'element', 'inet', 'sluice', 'svc4', '{ 10.96.0.10 . 6 . 80 }']);
    expect((await sluiced('status')).exitCode).toBe(1);
    expect(await apply()).toMatchObject({ exitCode: 0 });
    expect(await list()).toBe(good);
    expect(await sluiced('rollback', '1', '--endpoints', 'old', '--yes')).toMatchObject({ exitCode: 0 });
    expect((await cart()).filter((text) => text.includes('8080')).length).toBe(3);
    expect(first).toContain('goto n2');
    expect(await sluiced('cleanup')).toMatchObject({ exitCode: 0 });
    expect(await tables()).toBe('');
  });

  test('boots from the state directory, and recovers the table that a reboot removed', async () => {
    node.writeConfig('auto');
    publish(cartBundle([1, 2]));
    expect((await node.apply()).exitCode).toBe(0);
    const good = await list();
    await node.tool(['nft', 'delete', 'table', 'inet', 'sluice']);
    expect(await node.sluiced('boot')).toMatchObject({ exitCode: 0 });
    expect(await list()).toBe(good);
  });

  test.for([
    ['with events', ''],
    ['without tools of iptables', onlyNft],
  ] as const)('the daemon repairs what another program changed, %s', async ([, before]) => {
    node.writeConfig('auto');
    publish(cartBundle([1, 2]));
    node.start(before);
    await until('the bundle is applied', async () => (await cart().catch(() => [])).length === 3 || undefined);
    // Events are relied on after a second; polls are two seconds apart.
    await sleep(3_000);
    await node.tool(['nft', 'delete', 'element', 'inet', 'sluice', 'svc4', '{ 10.96.0.10 . 6 . 80 }']);
    await until('the element is back', async () => (await cart()).length === 3 || undefined);
    await node.tool(['nft', 'delete', 'table', 'inet', 'sluice']);
    await until('the table is back', async () => (await cart().catch(() => [])).length === 3 || undefined);
    expect(await cart()).toContain('10.96.0.10 . 6 . 80 : goto n2');
  });

  test('the daemon hands endpoint updates to one process, and does without it where that was killed', async () => {
    node.writeConfig('auto');
    publish(cartBundle([1, 2]));
    const daemon = node.start();
    const helper = await until('a process takes changes', async () => ownersOf(daemon.pid)[0]);
    const updates = async (last: number): Promise<void> => {
      publish(cartBundle([1, 2, last]));
      const element = `10.96.0.10 . 80 . 2 : 10.244.1.${last} . 8080`;
      await until('the endpoint serves', async () => (await cart()).includes(element) || undefined);
    };
    await updates(3);
    await updates(4);
    expect(ownersOf(daemon.pid)).toEqual([helper]);
    process.kill(helper as number, 'SIGKILL');
    await updates(5);
    await until('another process takes them', async () => ownersOf(daemon.pid).some((pid) => pid !== helper));
    await updates(6);
    expect(await node.sluiced('status')).toMatchObject({ exitCode: 0 });
  });

  test('a release on probation goes by itself when sluiced is killed, and the next one leaves nothing of it', async () => {
    const probe = 'probes: [{name: yes, exec: [/bin/true]}]\n';
    publish(cartBundle([1, 2]));
    node.writeConfig('auto');
    expect((await node.apply()).exitCode).toBe(0);
    const good = await list();
    node.writeConfig('auto', `${probe}probation: {seconds: 60, deadmanSeconds: 6}\n`);
    publish(cartBundle([7]));
    const trying = node.start();
    await until('packets meet the release', async () => /trial4 \{[^}]*0\.0\.0\.0\/0/.test(await list()) || undefined);
    expect(await cart()).toContain('10.96.0.10 . 80 . 65536 : 10.244.1.7 . 8080');
    await sleep(7_000);
    expect(await list(), 'it is renewed').toMatch(/trial4 \{[^}]*0\.0\.0\.0\/0/);
    await node.kill(trying);
    await sleep(7_000);
    expect(await list(), 'the kernel turned it off').not.toMatch(/trial4 \{[^}]*0\.0\.0\.0\/0/);
    publish(cartBundle([1, 2]));
    node.writeConfig('auto');
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    // The chain of its list stays: the next list of this length uses it.
    expect(setsOf(await list())).toBe(setsOf(good));
    expect(node.journal()?.history.flatMap(({ because }) => because ?? [])).toContain(
      'the process ended in the middle of the change; the kernel uses the old rules',
    );
  });

  test.for(['tree', 'flat'] as const)(
    'comes from mode iptables in layout %s, and goes back',
    async (layout, context) => {
      needBackend(context, 'nft');
      node.writeConfig('nft', `layout: ${layout}\n`);
      const none = await node.rules('nft');
      publish(web(1, 2));
      expect((await node.apply()).exitCode).toBe(0);
      const before = await node.rules('nft');
      publish(cartBundle([1, 2]));
      expect(await node.apply()).toMatchObject({ exitCode: 0 });
      expect(await node.rules('nft')).toBe(none);
      expect(await tables()).toContain('sluice');
      expect(await node.sluiced('rollback', '1', '--yes')).toMatchObject({ exitCode: 0 });
      expect(await node.rules('nft')).toBe(before);
      expect(await tables()).toBe('');
      publish(cartBundle([3]));
      expect((await node.apply()).exitCode).toBe(0);
      expect(await node.rules('nft')).toBe(none);
      publish(web(1, 2));
      expect((await node.apply()).exitCode).toBe(0);
      expect(await node.rules('nft')).toBe(before);
      expect(await tables()).toBe('');
    },
  );
});
