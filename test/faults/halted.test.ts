// @module-tag all
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { node, withNode } from '../netns/node-of-test.ts';
import { needBackend } from '../netns/privileges.ts';
import { type DataPlane, dataPlanes, until } from '../netns/sluiced-node.ts';
import { confirmFirst, reached } from '../netns/sluiced-probation.ts';

/**
 * A kernel that answers and refuses: it takes no rules of IPv6 from the moment that a release is on probation, so that the rollback is refused,
 * too, and the node is halted. Clients of IPv4 get the pods of the newest bundle, and their rules back, also from the next process and after a
 * reboot; when the kernel takes rules again, the node goes on by itself.
 */

/** How long a halted node takes for endpoints, a repair or its end: retries once a second, each with a whole attempt; 34 s at a load of 30. */
const healMs = 120_000;

withNode();

/** @param flag while this file exists, rules of IPv6 are refused, in the words of the tool. @returns shell text that mounts the tool */
function refusing({ backend, mode }: DataPlane, flag: string): string {
  const tools = `${node.directory}/tools`;
  const name = mode === 'nftables' ? 'nft' : `ip6tables-${backend}-restore`;
  const real = mode === 'nftables' ? 'nft-real' : `xtables-${backend}-multi ${name}`;
  mkdirSync(tools);
  copyFileSync('/usr/sbin/nft', `${tools}/nft-real`);
  const ofIpv6 = mode === 'nftables' ? `${elementsOfIpv6} $text` : 'true';
  const said =
    mode === 'nftables' ? 'Error: Could not process rule: Bad address' : `${name}: line 1 failed: Bad address`;
  const script = [
    '#!/bin/sh',
    ...(mode === 'nftables'
      ? [owner(flag, `${node.directory}/in`, said), '[ "$*" = "-f -" ] || exec nft-real "$@"']
      : []),
    `[ -e ${flag} ] || exec ${real} "$@"`,
    `text=$(mktemp ${node.directory}/text.XXXXXX)`,
    'cat >$text',
    `if ${ofIpv6}; then echo '${said}' >&2; exit 1; fi`,
    `exec ${real} "$@" <$text`,
  ];
  writeFileSync(`${tools}/${name}`, `${script.join('\n')}\n`, { mode: 0o755 });
  return `mount -t overlay overlay -o lowerdir=${tools}:/usr/sbin /usr/sbin &&`;
}

const elementsOfIpv6 = 'grep -q " element inet sluice [a-z]*6 "';

/** The long-lived `nft -i`, which owns the table where the kernel knows that: it is handed each transaction in its file 3. */
const owner = (flag: string, pipe: string, said: string): string => `refuse() {
  while IFS= read -r line; do
    case "$line" in
    include*) if [ -e ${flag} ] && ${elementsOfIpv6} /proc/self/fd/3; then echo '${said}' >&2; continue; fi;;
    esac
    printf '%s\\n' "$line"
  done
}
if [ "$*" = -i ]; then
  mkfifo ${pipe}-$$
  exec 5<&0
  refuse <&5 >${pipe}-$$ 4>&- 5>&- &
  exec nft-real -i <${pipe}-$$ 5>&-
fi`;

/** What a probe asks, until it is killed. */
const listener = `require('node:net').createServer((one) => one.end()).listen(9099, '127.0.0.1');`;

describe.each(dataPlanes)('a halted node on $backend in layout $layout, mode $mode', (plane) => {
  const { backend, layout, mode } = plane;
  beforeEach((context) => needBackend(context, backend));

  const publish = (web: number, added?: number): void =>
    writeBundle(
      `${node.directory}/rendered`,
      sampleBundle({
        services: { 'shop/web': [web], 'shop/new': added === undefined ? undefined : [added] },
        families: ['ipv4', 'ipv6'],
        mode,
      }),
    );
  const rules6 = async (): Promise<string> =>
    node.tool(mode === 'nftables' ? ['nft', '-n', 'list', 'table', 'inet', 'sluice'] : [`ip6tables-${backend}-save`]);
  const serves = async (answer: '1' | '2'): Promise<boolean> => (await reached(node)) === answer;
  const flush = async (): Promise<unknown> =>
    mode === 'nftables'
      ? node.tool(['nft', 'delete', 'table', 'inet', 'sluice'])
      : node.tool([`iptables-${backend}`, '-t', 'nat', '-F']);
  /** Nothing is left in the kernel. */
  const reboot = async (): Promise<void> => {
    for (const family of ['iptables', 'ip6tables'])
      await node.tool([`${family}-${backend}-restore`], '*nat\nCOMMIT\n*filter\nCOMMIT\n');
    await node.tool(['sh', '-c', 'ipset destroy; nft flush ruleset']).catch(() => undefined);
  };
  /** @returns the seconds until clients get this answer */
  const untilServed = async (what: string, answer: '1' | '2'): Promise<string> => {
    const startMs = performance.now();
    await until(what, async () => serves(answer), healMs);
    return `${what}: ${((performance.now() - startMs) / 1000).toFixed(1)} s`;
  };

  test('takes endpoints and repairs where the kernel takes rules, and goes on once it takes all', {
    timeout: 900_000,
  }, async () => {
    await confirmFirst(node, plane);
    const flag = `${node.directory}/refuses`;
    const probe = 'probes: [{name: port, tcp: "127.0.0.1:9099", attempts: 3}]\n';
    const more = `${mode === 'iptables' ? `layout: ${layout}\n` : ''}probation: {seconds: 300}\n${probe}`;
    node.writeConfig(backend, more.replace('seconds: 300', 'seconds: 0'));
    writeFileSync(`${node.directory}/listener.cjs`, listener);
    const listening = node.startProgram([process.execPath, `${node.directory}/listener.cjs`]);
    publish(1);
    await until('the port is open', async () => (await node.apply()).exitCode === 0, healMs);
    const mount = refusing(plane, flag);
    node.writeConfig(backend, more);
    let daemon = node.start(mount);
    publish(1, 6);
    await until('the release is in both families', async () => (await rules6()).includes('fd00:10::6'), healMs);
    writeFileSync(flag, '');
    await node.kill(listening);
    await until('the node is halted', async () => node.journal()?.held != null, healMs);
    const figures = [await untilServed('the old rules', '1')];
    publish(2, 6);
    figures.push(await untilServed('endpoints', '2'));
    await flush();
    figures.push(await untilServed('drift', '2'));

    await node.kill(daemon);
    await flush();
    daemon = node.start(mount);
    figures.push(await untilServed('drift before a restart', '2'));
    publish(1, 6);
    figures.push(await untilServed('endpoints after a restart', '1'));

    await node.kill(daemon);
    await reboot();
    expect(await node.sluicedAfter(mount, 'boot')).toMatchObject({ exitCode: 5 });
    node.start(mount);
    figures.push(await untilServed('rules after a reboot', '1'));
    publish(2, 6);
    figures.push(await untilServed('endpoints after a reboot', '2'));
    expect(node.journal()?.held).toContain('Bad address');
    expect(JSON.parse((await node.get()) ?? '{}')).toMatchObject({
      healthy: false,
      alarms: { NODE_HELD: expect.anything() },
    });

    rmSync(flag);
    const startMs = performance.now();
    await until(
      'the node goes on',
      async () =>
        node.journal()?.held === null &&
        (await rules6()).includes('fd00:10::2') &&
        JSON.parse((await node.get()) ?? '{}').healthy === true,
      healMs,
    );
    expect(await serves('2')).toBe(true);
    figures.push(`its end: ${((performance.now() - startMs) / 1000).toFixed(1)} s`);
    console.info(`halted on ${backend} ${mode} ${layout}: ${figures.join(', ')}`);
  });
});
