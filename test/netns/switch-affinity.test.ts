// @module-tag all
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { atTier } from '@sluice/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { withAffinity } from '../../packages/applier/src/testing/affinity.fixture.ts';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { type DataPlane, plainPlanes, until } from './sluiced-node.ts';

/**
 * A Service with session affinity while programs are switched: the endpoint of each client is kept in lists of the kernel
 * (`-m recent`), which exist as long as a rule refers to them, or in a map of the table of mode nftables. A switch must not lose one.
 */

const releases = atTier({ quick: 25, soak: 100 });

/** Twelve: the chance that all of them are on one of four endpoints is one in four million. */
const clients = Array.from({ length: 12 }, (_, n) => `192.0.2.${n + 11}`);
const vip = '10.96.0.11';

/** Every endpoint answers with the address it was reached at; every client connects from its own address, and records the answers. */
const program = (directory: string): string => `
  const { createServer, get } = require('node:http');
  const { writeFileSync, renameSync } = require('node:fs');
  createServer((asked, to) => to.end(asked.socket.localAddress)).listen(8080, '0.0.0.0', () => {
    for (const client of ${JSON.stringify(clients)}) ask(client);
  });
  const met = {};
  const note = (client, what) => { met[client] ??= {}; met[client][what] = (met[client][what] ?? 0) + 1; };
  const ask = (client) => {
    const again = () => setTimeout(ask, 40, client);
    const request = get({ host: '${vip}', localAddress: client, agent: false, timeout: 3000 }, (from) => {
      let text = '';
      from.on('data', (part) => { text += part; });
      from.on('end', () => { note(client, text); again(); });
    });
    request.on('timeout', () => request.destroy(new Error('no answer')));
    request.on('error', (error) => { note(client, error.code ?? error.message); again(); });
  };
  setInterval(() => { writeFileSync('${directory}/met.tmp', JSON.stringify(met)); renameSync('${directory}/met.tmp', '${directory}/met'); }, 100);
`;

withNode();

/** Endpoint n has the address 10.244.0.(n + 1). */
function put(mode: DataPlane['mode'], web: readonly number[], other: readonly number[], seconds = 600): void {
  const files = sampleBundle({ services: { 'shop/web': web, 'shop/cart': other }, mode });
  writeBundle(`${node.directory}/rendered`, withAffinity(files, 'shop/web', seconds));
}

const met = (): Record<string, Record<string, number>> =>
  JSON.parse(readFileSync(`${node.directory}/met`, 'utf8')) as Record<string, Record<string, number>>;

describe.each(plainPlanes)('session affinity under $backend, mode $mode', { timeout: 600_000 }, ({ backend, mode }) => {
  beforeEach((context) => needBackend(context, backend));

  test(`every client stays on its endpoint over ${releases} releases, also when endpoints are added and removed`, async () => {
    const { directory } = node;
    const endpoints = [1, 2, 3, 4];
    const addresses = [...clients, ...[...endpoints, 5].map((n) => `10.244.0.${n + 1}`)];
    const setUp = addresses.map((one) => `ip addr add ${one}/32 dev lo`).join(' && ');
    await node.tool(['sh', '-c', `${setUp} && ip route add 10.96.0.0/12 dev lo`]);
    node.writeConfig(backend);
    put(mode, endpoints, [20, 21]);
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    writeFileSync(`${directory}/clients.cjs`, program(directory));
    node.startProgram([process.execPath, `${directory}/clients.cjs`]);
    await until(
      'every client is served',
      async () => existsSync(`${directory}/met`) && clients.every((one) => met()[one]),
    );
    for (let count = 1; count <= releases; count++) {
      // Two endpoints replaced at once are a release, one would be an endpoint update.
      const first = 20 + 2 * (count % 50);
      put(mode, count % 5 === 0 ? [...endpoints, 5] : endpoints, [first, first + 1]);
      expect(await node.apply()).toMatchObject({ exitCode: 0 });
      expect(node.journal()?.current, 'a release of its own').toMatchObject({ number: count + 1, revision: 0 });
    }
    const seen = met();
    const places = clients.map((client) => Object.keys(seen[client] ?? {}));
    expect(places.filter((answers) => answers.length !== 1)).toEqual([]);
    expect(new Set(places.flat()).size, 'clients are on several endpoints').toBeGreaterThan(1);
    expect(places.flat().filter((answer) => !/^10\.244\.0\.[2-5]$/.test(answer))).toEqual([]);
    const answers = Object.values(seen).flatMap((one) => Object.values(one));
    console.log(
      `${backend}, mode ${mode}: ${answers.reduce((sum, one) => sum + one, 0)} answers over ${releases} releases`,
    );
  });

  test('the rollback of a shorter timeout keeps the affinity of every client that does not connect meanwhile', async () => {
    const { directory } = node;
    const endpoints = [1, 2];
    const setUp = [...clients, '10.244.0.2', '10.244.0.3'].map((one) => `ip addr add ${one}/32 dev lo`).join(' && ');
    await node.tool(['sh', '-c', `${setUp} && ip route add 10.96.0.0/12 dev lo`]);
    writeFileSync(`${directory}/again.cjs`, reapingProbe);
    const probe = `probation: {seconds: 4}\nprobes: [{name: again, exec: [${process.execPath}, ${directory}/again.cjs], attempts: 1, timeoutSeconds: 10}]\n`;
    node.writeConfig(backend);
    put(mode, endpoints, [20, 21], 600);
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    writeFileSync(`${directory}/all.cjs`, oneConnectionEach);
    await node.tool([process.execPath, `${directory}/all.cjs`]);
    expect(await known(mode)).toBe(clients.length);

    node.writeConfig(backend, probe);
    put(mode, endpoints, [22, 23], 1);
    expect(await node.apply()).toMatchObject({ exitCode: 4 });
    // In mode nftables each client has its time with it: the one that connected meanwhile keeps the shorter one, a second.
    await sleep(2_000);
    const kept = mode === 'nftables' ? clients.length - 1 : clients.length;
    expect(await known(mode), 'after the rollback').toBe(kept);
  });
});

/** The number of clients in the kernel's lists. */
async function known(mode: DataPlane['mode']): Promise<number> {
  const list = mode === 'nftables' ? 'nft list map inet sluice aff4' : 'cat /proc/self/net/xt_recent/*';
  const text = await node.tool(['sh', '-c', list]);
  return new Set(text.match(/(?<=^src=|[\s,{])192\.0\.2\.\d+/gm)).size;
}

const ask = `
  const { get } = require('node:http');
  const ask = (client, then) =>
    get({ host: '${vip}', localAddress: client, agent: false, timeout: 3000 }, (from) => from.resume().on('end', then)).on('error', (error) => { throw error; });
`;

/** Both endpoints, and one connection of each client, one after the other. */
const oneConnectionEach = `${ask}
  const server = require('node:http').createServer((_asked, to) => to.end('here')).listen(8080, '0.0.0.0', () => {
    const next = ([client, ...others]) => client ? ask(client, () => next(others)) : process.exit(0);
    next(${JSON.stringify(clients)});
  });
`;

/**
 * Passes as long as the old rules are active. Later, when the shorter time has run out for every client, the last client connects again:
 * on each connection a rule that reaps removes one other client from its list in the kernel. Then the probe fails.
 */
const reapingProbe = `${ask}
  const { execFileSync } = require('node:child_process');
  const rules = execFileSync('/bin/sh', ['-c', 'iptables-nft-save; iptables-legacy-save; nft list ruleset'], { encoding: 'utf8' });
  if (!rules.includes('10.244.0.24')) process.exit(0);
  const again = (left) => {
    if (left === 0) process.exit(1);
    ask('${clients.at(-1)}', () => again(left - 1));
  };
  const server = require('node:http').createServer((_asked, to) => to.end('here')).listen(8080, '0.0.0.0', () => {
    setTimeout(again, 2_000, ${clients.length + 1});
  });
`;
