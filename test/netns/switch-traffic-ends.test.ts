// @module-tag all
// @module-tag alone
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { atTier } from '@sluice/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { type DataPlane, plainPlanes, until } from './sluiced-node.ts';

/**
 * A Service that gets its first endpoint and loses its last one, repeatedly, under new connections all the time: each is served
 * or refused, none goes unanswered, and other Services are not affected.
 */

const rounds = atTier({ quick: 2, soak: 100 });
const lastAfterSeconds = 4;

/** Of shop/cart, which keeps its endpoint 3, and of shop/edge. */
const vips = { cart: ['10.96.0.11', 'fd00:96::a'], edge: ['10.96.0.12', 'fd00:96::b'] } as const;

/** Every endpoint answers; clients connect again after each answer, and record it. */
const program = (file: string): string => `
  const { createServer, connect } = require('node:net');
  const { writeFileSync, renameSync } = require('node:fs');
  createServer((socket) => { socket.on('error', () => {}); socket.end('served'); }).listen(8080, '::');
  const met = {};
  const ask = (vip) => {
    let done = false;
    const end = (what) => {
      if (done) return;
      done = true;
      socket.destroy();
      met[vip] ??= {};
      met[vip][what] = (met[vip][what] ?? 0) + 1;
      setTimeout(ask, 2, vip);
    };
    const socket = connect({ host: vip, port: 80, timeout: 3000 });
    socket.on('data', (text) => end(String(text)));
    socket.on('timeout', () => end('no answer'));
    socket.on('error', (error) => end(error.code));
  };
  process.on('SIGUSR2', () => { for (const vip of ${JSON.stringify([...vips.cart, ...vips.edge])}) ask(vip); });
  setInterval(() => { writeFileSync('${file}.tmp', JSON.stringify(met)); renameSync('${file}.tmp', '${file}'); }, 50);
`;

withNode();

function put(mode: DataPlane['mode'], edge: readonly number[]): void {
  const services = { 'shop/cart': [3], 'shop/edge': edge };
  writeBundle(`${node.directory}/rendered`, sampleBundle({ services, families: ['ipv4', 'ipv6'], mode }));
}

type AnswerCountsByVip = Record<string, Record<string, number>>;
const met = (): AnswerCountsByVip => {
  try {
    return JSON.parse(readFileSync(`${node.directory}/met`, 'utf8')) as AnswerCountsByVip;
  } catch {
    return {};
  }
};
/** How often this was the answer of the edge, in the family with fewer. */
const count = (what: string): number => Math.min(...vips.edge.map((vip) => met()[vip]?.[what] ?? 0));
/** Waits until clients of both families get this answer. @returns after how many ms; the kernel refuses one a second (icmp_ratelimit) */
async function answered(what: string): Promise<number> {
  const [before, startMs] = [count(what), performance.now()];
  await until(`clients meet ${what}`, async () => count(what) > before + (what === 'served' ? 20 : 0));
  return performance.now() - startMs;
}

describe.each(plainPlanes)(
  'the first and the last endpoint under $backend, mode $mode',
  { timeout: 600_000 },
  ({ backend, mode }) => {
    beforeEach((context) => needBackend(context, backend));

    test(`${rounds} times: the last one is removed late, the first one added at once, and no connection is lost`, async () => {
      const { directory } = node;
      const places = [3, 4, 5].flatMap((n) => [`10.244.0.${n + 1}/32 dev lo`, `fd00:10::${n}/128 dev lo nodad`]);
      const setUp = [
        ...places.map((one) => `ip addr add ${one}`),
        // Packets that leave without NAT are lost: the far end of the link is empty.
        'ip link add out type veth peer name nowhere',
        'ip addr add 192.0.2.1/24 dev out',
        'ip addr add fd00:1::1/64 dev out nodad',
        'ip link set out up',
        'ip link set nowhere up',
        'ip route add 10.96.0.0/12 dev out',
        'ip -6 route add fd00:96::/112 dev out',
      ];
      await node.tool(['sh', '-c', setUp.join(' && ')]);
      node.writeConfig(backend, `endpoints: {lastAfterSeconds: ${lastAfterSeconds}}\n`);
      put(mode, [4]);
      expect(await node.apply()).toMatchObject({ exitCode: 0 });
      writeFileSync(`${directory}/clients.cjs`, program(`${directory}/met`));
      const clients = node.startProgram([process.execPath, `${directory}/clients.cjs`]);
      await until('the clients run', async () => existsSync(`${directory}/met`));
      node.start();
      await until('the daemon answers', async () => node.get());
      clients.kill('SIGUSR2');
      await answered('served');
      for (let round = 0; round < rounds; round++) {
        put(mode, []);
        expect(await answered('ECONNREFUSED'), 'the last one is removed late').toBeGreaterThan(lastAfterSeconds * 900);
        put(mode, [4 + (round % 2)]);
        expect(await answered('served'), 'the first one is added at once').toBeLessThan(lastAfterSeconds * 1000);
      }
      const seen = met();
      const kinds = (ones: readonly string[]): readonly (readonly string[])[] =>
        ones.map((vip) => Object.keys(seen[vip] ?? {}).toSorted());
      expect(kinds(vips.cart)).toEqual([['served'], ['served']]);
      expect(kinds(vips.edge)).toEqual([
        ['ECONNREFUSED', 'served'],
        ['ECONNREFUSED', 'served'],
      ]);
      await until('the last change is written down', async () => node.journal()?.current?.revision === 2 * rounds);
      expect(node.journal()?.current, 'no release was made').toMatchObject({ number: 1 });
      const answers = Object.values(seen).flatMap((one) => Object.values(one));
      console.log(
        `${backend}, mode ${mode}: ${answers.reduce((sum, one) => sum + one, 0)} connections over ${2 * rounds} changes`,
      );
    });
  },
);
