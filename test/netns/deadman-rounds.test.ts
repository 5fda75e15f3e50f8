// @module-tag all
// @module-tag alone
import { rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { atTier } from '@sluice/testing';
import { execa } from 'execa';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { type Sample, Sampler } from './sampler.ts';
import { type DataPlane, plainPlanes, SluicedNode, until } from './sluiced-node.ts';

/**
 * Round after round `sluiced` is killed while its release is on probation, and the dead-man switch rolls back. From the kill until after the
 * expiry clients on the node and outside of it connect to every Service at once, repeatedly: each must be served or refused at once, by one
 * program or the other. `SLUICE_ROUND=118 ./dev soak test/netns/deadman-rounds.test.ts` continues with round 118 of each store.
 */

const rounds = atTier({ quick: 2, soak: 100 });
const first = Number(process.env['SLUICE_ROUND'] ?? 1);
/** The minimum of `sluiced.yaml`. */
const deadmanSeconds = 6;
const everyMs = 250;
const timeoutMs = 5_000;
/**
 * A slower connection lost a packet: TCP sends the next one after 1 s. Over IPv6 Linux takes the first refusal of a connection for one that
 * may pass, and obeys the answer to its second packet; it does so with a plain REJECT and no other rule, too.
 */
const slowMs = (address: string): number => (address.includes(':') && isEverRefused(address) ? 1_900 : 900);

/** Endpoints before the release and on probation: some stay, some are replaced two at once, some are removed, some never existed. */
const services: Readonly<Record<string, readonly [readonly number[], readonly number[]]>> = Object.fromEntries([
  ...Array.from({ length: 25 }, (_, n) => [`shop/stays-${n}`, [[n + 1], [n + 1]]]),
  ...Array.from({ length: 25 }, (_, n) => [
    `shop/moves-${n}`,
    [
      [30 + 4 * n, 31 + 4 * n],
      [32 + 4 * n, 33 + 4 * n],
    ],
  ]),
  ...Array.from({ length: 2 }, (_, n) => [`shop/goes-${n}`, [[200 + n], []]]),
  ...Array.from({ length: 2 }, (_, n) => [`shop/empty-${n}`, [[], []]]),
]);
const names = Object.keys(services);
const endpoints = [...new Set(Object.values(services).flat(2))];
const addressesOf = (n: number): readonly string[] => [`10.244.0.${n + 1}`, `fd00:10::${n.toString(16)}`];
const vipsOf = (index: number): readonly string[] => [`10.96.0.${index + 11}`, `fd00:96::${(index + 10).toString(16)}`];
const vips = names.flatMap((_, index) => vipsOf(index));

/** By VIP: the answers of the old program and of the one on probation. */
const expected = new Map(
  names.flatMap((name, index) => {
    const [old, fresh] = services[name]!.map((ends) =>
      ends.length === 0 ? ['ECONNREFUSED'] : ends.flatMap(addressesOf),
    ) as [string[], string[]];
    return vipsOf(index).map((vip) => [vip, { old, fresh }] as const);
  }),
);

function isEverRefused(address: string): boolean {
  const answers = expected.get(address);
  return answers !== undefined && [...answers.old, ...answers.fresh].includes('ECONNREFUSED');
}

const servers = `
  require('node:net').createServer((socket) => {
    socket.on('error', () => {});
    socket.end(socket.localAddress.replace('::ffff:', ''));
  }).listen(8080, '::');
`;

let node: SluicedNode;
let outside: string;
let samplers: readonly Sampler[] = [];
beforeEach(needKernel);
beforeEach(async () => {
  node = await SluicedNode.make();
  outside = `${node.name}o`;
  await execa('ip', ['netns', 'add', outside]);
});
afterEach(async () => {
  await Promise.all(samplers.map((one) => one.close()));
  samplers = [];
  await execa('ip', ['netns', 'delete', outside], { reject: false });
  await node.remove();
});

/** The node with its endpoints, and a client outside. Packets that leave either untranslated reach no machine. */
async function build(): Promise<void> {
  const places = endpoints.flatMap((n) => {
    const [v4, v6] = addressesOf(n);
    return [`addr add ${v4}/32 dev lo`, `addr add ${v6}/128 dev lo nodad`];
  });
  const own = [
    ...places,
    `link add out type veth peer name in netns ${outside}`,
    'addr add 192.0.2.1/24 dev out',
    'addr add fd00:1::1/64 dev out nodad',
    'link set out up',
    'route add 10.96.0.0/12 via 192.0.2.77',
    'route add fd00:96::/112 via fd00:1::77',
  ];
  const theirs = [
    'link set lo up',
    'addr add 192.0.2.2/24 dev in',
    'addr add fd00:1::2/64 dev in nodad',
    'link set in up',
    'route add default via 192.0.2.1',
    'route add ::/0 via fd00:1::1',
  ];
  await execa('ip', ['-n', node.name, '-batch', '-'], { input: own.join('\n') });
  await execa('ip', ['-n', outside, '-batch', '-'], { input: theirs.join('\n') });
  const tunables = [
    'echo 1 > /proc/sys/net/ipv4/ip_forward',
    'echo 1 > /proc/sys/net/ipv6/conf/all/forwarding',
    // Otherwise a kernel refuses no more than one connection a second to one client, and delays the rest (icmp(7)).
    'echo 0 > /proc/sys/net/ipv4/icmp_ratemask',
    'echo > /proc/sys/net/ipv6/icmp/ratemask',
  ];
  await node.tool(['sh', '-c', tunables.join(' && ')]);
  writeFileSync(`${node.directory}/servers.cjs`, servers);
  node.startProgram([process.execPath, `${node.directory}/servers.cjs`]);
  samplers = [new Sampler(node.name), new Sampler(outside)];
}

/** The old program, or a release for one round: a version that was interrupted three times is not retried. */
const put = (mode: DataPlane['mode'], round?: number): void => {
  const which = round === undefined ? 0 : 1;
  const ends: Record<string, readonly number[]> = Object.fromEntries(
    names.map((name) => [name, services[name]![which]]),
  );
  if (round !== undefined) ends[`shop/round-${round}`] = [1];
  rmSync(`${node.directory}/rendered`, { recursive: true, force: true });
  writeBundle(`${node.directory}/rendered`, sampleBundle({ services: ends, families: ['ipv4', 'ipv6'], mode }));
};

const ask = async (): Promise<readonly Sample[]> =>
  (await Promise.all(samplers.map((one) => one.ask(vips, 80, timeoutMs)))).flat();

/** Connects to every Service at once, repeatedly. @param ms for how long @returns each sample with its start, in ms after the first */
async function sample(ms: number): Promise<readonly (Sample & { readonly atMs: number })[]> {
  const beginMs = performance.now();
  const pending: Promise<readonly (Sample & { readonly atMs: number })[]>[] = [];
  while (performance.now() - beginMs < ms) {
    const atMs = Math.round(performance.now() - beginMs);
    pending.push(ask().then((samples) => samples.map((one) => ({ ...one, atMs }))));
    await sleep(everyMs);
  }
  return (await Promise.all(pending)).flat();
}

const isServed = (samples: readonly Sample[], by: 'old' | 'fresh'): boolean =>
  samples.every(({ address, met }) => expected.get(address)?.[by].includes(met));

describe.each(plainPlanes)('killed on probation, on $backend, mode $mode', ({ backend, mode }) => {
  beforeEach((context) => needBackend(context, backend));

  test('every Service answers or refuses at once, from the kill until after the expiry', {
    timeout: 120_000 + (rounds - first + 1) * 60_000,
  }, async () => {
    await build();
    const probation = (seconds: number): void =>
      node.writeConfig(
        backend,
        `endpoints: {lastAfterSeconds: 0}\nreleases: {perHour: 360}\nprobation: {seconds: ${seconds}, deadmanSeconds: ${deadmanSeconds}}\nprobes: [{name: good, exec: [/bin/true]}]\n`,
      );
    probation(0);
    put(mode);
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    await until('the old program serves', async () => isServed(await ask(), 'old'));
    const wrong: string[] = [];
    let connections = 0;
    for (let round = first; round <= rounds; round++) {
      probation(300);
      put(mode, round);
      const daemon = node.start();
      await until('the release on probation serves', async () => isServed(await ask(), 'fresh'), 1_000);
      // Somewhere between two heartbeats.
      await sleep((round * 677) % 3_000);
      await node.kill(daemon);
      const samples = await sample((deadmanSeconds + 3) * 1_000);
      connections += samples.length;
      const back = samples.find(
        ({ address, met }) => address === vipsOf(25)[0] && expected.get(address)?.old.includes(met),
      );
      const late = samples.filter((one) => {
        const answers = expected.get(one.address);
        return one.ms > slowMs(one.address) || !(answers?.old.includes(one.met) || answers?.fresh.includes(one.met));
      });
      for (const { address, met, ms, atMs } of late)
        wrong.push(
          `round ${round}: ${names[vips.indexOf(address) >> 1]} ${address} met ${met} after ${ms} ms, ${atMs} ms after the kill`,
        );
      if (!isServed(await ask(), 'old'))
        wrong.push(`round ${round}: the old program does not serve ${deadmanSeconds + 3} s after the kill`);
      console.log(
        `${backend}, mode ${mode}, round ${round} of ${rounds}: rolled back ${back?.atMs} ms after the kill, ${late.length} wrong of ${samples.length}`,
      );
      probation(0);
      put(mode);
      expect(await node.apply()).toMatchObject({ exitCode: 0 });
    }
    console.log(`${backend}, mode ${mode}: ${connections} connections`);
    expect(wrong).toEqual([]);
  });
});
