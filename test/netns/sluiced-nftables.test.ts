// @module-tag quick
import { rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import { printNftTable } from '@sluice/netfilter';
import { writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { cartBundle } from '../../packages/applier/src/testing/nftables.fixture.ts';
import { inPlace, nftOf, nftVersions } from '../nft/newer.ts';
import { needBackend, needKernel } from './privileges.ts';
import { SluicedNode, until, web } from './sluiced-node.ts';

/** `sluiced` in mode nftables on the real kernel, in a network namespace with a /run of its own. */

let node: SluicedNode;
beforeEach(needKernel);

const routeLocalnet = '/proc/sys/net/ipv4/conf/all/route_localnet';

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

  test('node ports on localhost raise route_localnet, and a rollback lowers it', async () => {
    node.writeConfig('auto');
    const routed = async (): Promise<string> => (await node.tool(['cat', routeLocalnet])).trim();
    publish(cartBundle([1, 2]));
    expect((await node.apply()).exitCode).toBe(0);
    const before = await list();
    expect(await routed()).toBe('0');
    const options = { detector: 'address', masqueradeAll: false, localhost: 'served' } as const;
    const files = cartBundle([1, 2]);
    files.set('profiles/default/base/first.nft', printNftTable(options));
    files.set('profiles/default/base/sysctl.conf', 'net.ipv4.conf.all.route_localnet = 1\n');
    publish(files);
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    expect(await list()).toContain('iifname != "lo" drop');
    expect(await routed()).toBe('1');
    expect(await node.sluiced('rollback', '1', '--yes')).toMatchObject({ exitCode: 0 });
    expect(await list()).toBe(before);
    expect(await routed()).toBe('0');
    publish(files);
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    expect(await routed()).toBe('1');
    expect(await node.sluiced('cleanup')).toMatchObject({ exitCode: 0 });
    expect(await routed()).toBe('0');
  });

  test('the daemon repairs what another program changed without tools of iptables, and so without events', async () => {
    node.writeConfig('auto');
    publish(cartBundle([1, 2]));
    node.start(onlyNft);
    await until('the bundle is applied', async () => (await cart().catch(() => [])).length === 3 || undefined);
    // Polls are two seconds apart.
    await sleep(3_000);
    const foreign = (...command: readonly string[]): Promise<string> =>
      node.tool(['nft', 'delete', ...command]).catch((error: { stderr?: string }) => error.stderr ?? '');
    const refusal = await foreign('element', 'inet', 'sluice', 'svc4', '{ 10.96.0.10 . 6 . 80 }');
    // Where the table is owned there is nothing to repair.
    expect(refusal).toMatch(/^$|Operation not permitted/);
    await until('the element is back', async () => (await cart()).length === 3 || undefined);
    const wholeRefusal = await foreign('table', 'inet', 'sluice');
    expect(wholeRefusal === '').toBe(refusal === '');
    await until('the table is back', async () => (await cart().catch(() => [])).length === 3 || undefined);
    expect(await cart()).toContain('10.96.0.10 . 6 . 80 : goto n2');
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
