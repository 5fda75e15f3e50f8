// @module-tag test
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { needBackend, needKernel } from './privileges.ts';
import { plainPlanes, SluicedNode } from './sluiced-node.ts';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';

/** A node that kube-proxy served, with the kubelet's and a CNI plugin's rules in the same tables. */

/** The foreign rules in the tables, besides kube-proxy's. The CNI plugin's rule refers to kube-proxy's chain. */
const foreignRules = `*mangle
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-PROXY-CANARY - [0:0]
COMMIT
*filter
:KUBE-FIREWALL - [0:0]
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m mark --mark 0x99 -j DROP
COMMIT
`;

/** kube-proxy's own, in its order of jumps, with its marks as `-j MARK` (kube-proxy-iptables page, worked example). */
function kubeProxy(vip: string, endpoint: string): string {
  return `*filter
:KUBE-PROXY-CANARY - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-FORWARD - [0:0]
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
COMMIT
*nat
:KUBE-PROXY-CANARY - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-SVC-I5LIAMPLWKMBJ54B - [0:0]
:KUBE-SEP-HR5QIAI7KRESNQ5F - [0:0]
:CNI-X - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A CNI-X -p tcp -m tcp --dport 8081 -j KUBE-MARK-MASQ
-A PREROUTING -p tcp -m tcp --dport 8081 -j CNI-X
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
-A KUBE-SERVICES -d ${vip} -p tcp -m comment --comment "shop/cart:http cluster IP" -m tcp --dport 80 -j KUBE-SVC-I5LIAMPLWKMBJ54B
-A KUBE-SVC-I5LIAMPLWKMBJ54B -m comment --comment "shop/cart:http -> ${endpoint}" -j KUBE-SEP-HR5QIAI7KRESNQ5F
-A KUBE-SEP-HR5QIAI7KRESNQ5F -p tcp -m comment --comment shop/cart:http -m tcp -j DNAT --to-destination ${endpoint}
COMMIT
`;
}

/** Lines of a third party, neither kube-proxy's nor Sluice's. */
const foreign = (rules: string): string =>
  rules
    .split('\n')
    .filter((line) => /CNI-X|0x99|KUBE-FIREWALL|KUBE-KUBELET-CANARY|KUBE-IPTABLES-HINT/.test(line))
    .join('\n');
/** Chain by chain, each in its order: chains are listed in order of creation, and our jumps come before foreign ones. */
const sorted = (rules: string): readonly string[] => {
  const chain = (line: string): string => (line.startsWith('-A KUBE-') ? (line.split(' ', 2)[1] ?? '') : line);
  return rules.split('\n').toSorted((a, b) => (chain(a) < chain(b) ? -1 : chain(a) > chain(b) ? 1 : 0));
};

let node: SluicedNode;
let before: string;

beforeEach(needKernel);

const planes = oneInTurn(plainPlanes, 'takeover');

describe.each(planes)('a node that kube-proxy served, on $backend, in mode $mode', ({ backend, mode }) => {
  /** The rules, and what the table of mode nftables serves. */
  const everything = async (): Promise<string> => `${await node.rules(backend)}${await node.frontends()}`;
  beforeEach((context) => needBackend(context, backend));
  beforeEach(async () => {
    node = await SluicedNode.make('', true);
    await node.tool([`iptables-${backend}-restore`, '--noflush'], foreignRules);
    await node.tool([`ip6tables-${backend}-restore`, '--noflush'], foreignRules);
    await node.tool([`iptables-${backend}-restore`, '--noflush'], kubeProxy('10.96.7.1', '10.244.1.7:8080'));
    await node.tool([`ip6tables-${backend}-restore`, '--noflush'], kubeProxy('fd00:96::7:1', '[fd00:10::7]:8080'));
    before = await everything();
    writeBundle(`${node.directory}/rendered`, sampleBundle({ families: ['ipv4', 'ipv6'], mode }));
  });
  afterEach(() => node.remove());

  test('is refused without takeOver, in mode iptables in layout flat, and while a kube-proxy runs', async () => {
    node.writeConfig(backend, mode === 'iptables' ? 'layout: flat\n' : '');
    expect(await node.apply()).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('takeOver: kube-proxy') });
    node.writeConfig(backend, 'takeOver: kube-proxy\n');
    const running = "{ bash -c 'exec -a kube-proxy sleep 6' & } && sleep 0.3 &&";
    const refused = await node.sluicedAfter(running, 'apply', `${node.directory}/rendered`);
    expect(refused).toMatchObject({ exitCode: 3, stderr: expect.stringContaining('Stop kube-proxy (process ') });
    expect(await everything()).toBe(before);
  });

  test.runIf(mode === 'iptables')(
    "serves beside kube-proxy's rules without takeOver, and cleans up to the last line",
    async () => {
      node.writeConfig(backend);
      expect(await node.apply()).toMatchObject({ exitCode: 0 });
      const both = await everything();
      expect(both).toContain('I5LIAMPLWKMBJ54B');
      expect(both).toContain(':SLUICE-SERVICES');
      expect(foreign(both)).toBe(foreign(before));
      expect(await node.sluiced('cleanup')).toMatchObject({ exitCode: 0 });
      expect(await everything()).toBe(before);
    },
  );

  test('is taken over; rollback 0 restores every line, and foreign rules never change', async () => {
    node.writeConfig(backend, 'takeOver: kube-proxy\n');
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    const taken = await everything();
    expect(taken).not.toContain('I5LIAMPLWKMBJ54B');
    expect(foreign(taken)).toBe(foreign(before));
    expect(await node.sluiced('rollback', '0', '--remove-all-services', '--yes')).toMatchObject({ exitCode: 0 });
    const back = await everything();
    expect(foreign(back)).toBe(foreign(before));
    expect(sorted(back)).toEqual(sorted(before));
  });

  test('is cleaned up after a takeover: foreign rules and the chains that they refer to are left', async () => {
    node.writeConfig(backend, 'takeOver: kube-proxy\n');
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    expect(await node.sluiced('cleanup')).toMatchObject({ exitCode: 0 });
    const left = await everything();
    expect(foreign(left)).toBe(foreign(before));
    expect(left).not.toMatch(/KUBE-(SERVICES|SVC|SEP|POSTROUTING|FORWARD)/);
    // The CNI plugin's rule refers to it.
    expect(left).toContain(':KUBE-MARK-MASQ');
  });

  const fails = (command: string): string => `probes: [{name: flag, exec: [${command}], attempts: 1}]\n`;
  const layouts = mode === 'iptables' ? ['tree', 'flat'] : ['tree'];
  test.each(layouts)('excuses no probe that fails on flushed rules of kube-proxy, in layout %s', async (layout) => {
    const config = `takeOver: kube-proxy\nlayout: ${layout}\n`;
    node.writeConfig(backend, `${config}${fails('/bin/false')}`);
    await node.tool(['sh', '-c', `iptables-${backend} -t nat -F; iptables-${backend} -F`]);
    expect(await node.apply()).toMatchObject({
      exitCode: 4,
      stdout: expect.stringContaining('whether it failed before is not known'),
    });
    node.writeConfig(backend, `${config}${fails('/bin/true')}`);
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
  });

  test.each(layouts)('excuses a probe that failed with the rules of kube-proxy, too, in layout %s', async (layout) => {
    node.writeConfig(backend, `takeOver: kube-proxy\nlayout: ${layout}\n${fails('/bin/false')}`);
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
  });

  test("restores kube-proxy's rules, line for line, when a probe fails after the takeover", async () => {
    const flag = `${node.directory}/healthy`;
    const config = `probes:\n  - {name: flag, exec: [/bin/sh, -c, "rm ${flag}"], attempts: 2, intervalSeconds: 0.1}\n`;
    node.writeConfig(backend, `takeOver: kube-proxy\n${config}`);
    writeFileSync(flag, '');
    expect(await node.apply()).toMatchObject({ exitCode: 4 });
    expect(existsSync(flag)).toBe(false);
    const back = await everything();
    expect(foreign(back)).toBe(foreign(before));
    expect(sorted(back)).toEqual(sorted(before));
    rmSync(flag, { force: true });
  });
});

describe('a node that kube-proxy served in another mode', () => {
  beforeEach(async () => {
    node = await SluicedNode.make('', true);
    writeBundle(`${node.directory}/rendered`, sampleBundle({ families: ['ipv4'] }));
  });
  afterEach(() => node.remove());

  test.each([
    [
      'nftables, its table',
      ['nft', 'add', 'table', 'ip', 'kube-proxy'],
      'takeOver: kube-proxy\n',
      'run `sluiced adopt`',
    ],
    ['ipvs, its interface', ['ip', 'link', 'add', 'kube-ipvs0', 'type', 'veth'], '', 'set `takeOver: kube-proxy`'],
  ])('is refused for leftovers of mode %s', async (_title, leave, config, hint) => {
    await node.tool(leave);
    node.writeConfig('nft', config);
    expect(await node.apply()).toMatchObject({ exitCode: 3, stderr: expect.stringContaining(hint) });
    expect(await node.rules('nft')).toBe('\n');
    expect(await node.sluiced('preflight', `${node.directory}/rendered`)).toMatchObject({
      exitCode: 3,
      stdout: expect.stringContaining(hint),
    });
  });
});
