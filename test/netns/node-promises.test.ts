// @module-tag test
import { beforeEach, describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { planesHere, until } from './sluiced-node.ts';

/** What a node does besides rules, in each data plane: values of connection tracking, metrics, and the checks before the first apply. */

const timeout = 'nf_conntrack_tcp_timeout_established';
const flags = ['nf_conntrack_acct', timeout] as const;
const wanted = ['1', '7200'] as const;

withNode();

/** Layout flat, too, where mode iptables works. */
const all = planesHere.flatMap((plane) =>
  (plane.mode === 'iptables' && plane.backend === 'nft' ? (['tree', 'flat'] as const) : (['tree'] as const)).map(
    (layout) => ({ ...plane, layout }),
  ),
);
const planes = oneInTurn(all, 'promises');

describe.each(planes)('sluiced in mode $mode, $backend, layout $layout', { timeout: 300_000 }, (plane) => {
  const { backend, mode, layout } = plane;
  const configure = (): void => node.writeConfig(backend, `layout: ${layout}\n`);
  beforeEach((context) => needBackend(context, backend));

  const publish = (sysctls: readonly string[] = []): void =>
    writeBundle(`${node.directory}/rendered`, sampleBundle({ services: { 'shop/web': [1, 2] }, mode, sysctls }));
  const values = async (): Promise<readonly string[]> =>
    (await node.tool(['sysctl', '-n', ...flags.map((key) => `net.netfilter.${key}`)])).split('\n');

  test('sets values of connection tracking, and a rollback restores those before', async () => {
    // The table of connections has the modules loaded, so that the values are there.
    await node.tool(['sh', '-c', `${mode === 'nftables' ? 'nft' : `iptables-${backend}`} --version && conntrack -L`]);
    configure();
    const before = await values();
    expect(before).not.toEqual(wanted);
    publish(flags.map((key, at) => `net.netfilter.${key} = ${wanted[at]}`));
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    expect(await values()).toEqual(wanted);
    expect(await node.sluiced('rollback', '0', '--remove-all-services', '--yes')).toMatchObject({ exitCode: 0 });
    expect(await values()).toEqual(before);
  });

  test('metrics say what serves, and that a repair was needed', async () => {
    configure();
    publish();
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    const endpoints = await node.endpoints(plane);
    expect(endpoints).toHaveLength(2);
    node.start();
    const metric = async (name: string): Promise<string | undefined> => {
      const lines = ((await node.get('/metrics')) ?? '').split('\n');
      return lines
        .find((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
        ?.split(' ')
        .at(-1);
    };
    await until('they say what serves', async () => (await metric('sluice_endpoints')) === '2', 120_000);
    expect(await metric('sluice_generation')).toBe('1');
    expect(Number(await metric('sluice_repairs_total'))).toBe(0);
    await node.tool(
      mode === 'nftables'
        ? ['nft', 'delete', 'table', 'inet', 'sluice']
        : mode === 'ipvs'
          ? ['ipvsadm', '-C']
          : [`iptables-${backend}`, '-t', 'nat', '-F'],
    );
    await until('they count the repair', async () => Number(await metric('sluice_repairs_total')) > 0, 120_000);
    await until('it serves again', async () => (await node.endpoints(plane)).join() === endpoints.join(), 120_000);
  });

  test('preflight names what an apply would meet, and changes nothing', async () => {
    configure();
    publish();
    const before = await node.forwarding(plane);
    const checked = await node.sluiced('preflight', `${node.directory}/rendered`, '--verbose');
    expect(checked).toMatchObject({ exitCode: 0 });
    expect(await node.forwarding(plane)).toBe(before);
    // The value of a release that no kernel takes, and a tool that is away.
    publish(['net.netfilter.nf_conntrack_tcp_timeout_established = 0']);
    const refused = await node.sluiced('preflight', `${node.directory}/rendered`);
    expect(refused.exitCode).not.toBe(0);
    publish();
    const tool = { iptables: `iptables-${backend}-restore`, ipvs: 'ipvsadm', nftables: 'nft' }[mode];
    const away = `mount --bind /dev/null /usr/sbin/${tool} &&`;
    const lacking = await node.sluicedAfter(away, 'preflight', `${node.directory}/rendered`);
    expect(lacking.exitCode).not.toBe(0);
    expect(lacking.stdout).toContain(mode === 'iptables' ? 'iptables' : tool);
  });
});
