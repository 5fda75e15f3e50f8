// @module-tag test
import { readFileSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { SluicedNode, until } from './sluiced-node.ts';

/** Clients of UDP that keep their port, against the real program: they must not be left with endpoints that are gone. */

let node: SluicedNode;
beforeEach(needKernel);
beforeEach(async () => {
  node = await SluicedNode.make();
});
afterEach(() => node.remove());

/** Endpoint n of a sample bundle has the address 10.244.0.(n + 1); Services have 10.96.0.11, 10.96.0.12 and so on. */
function bundle(services: Readonly<Record<string, readonly number[]>>): ReadonlyMap<string, string> {
  const files = sampleBundle({ services });
  return new Map([...files].map(([path, text]) => [path, text.replaceAll('-m tcp -p tcp', '-m udp -p udp')]));
}

/** Endpoints that answer with their number, and two clients that ask every 20 ms from one port each and write down who answered. */
const program = (directory: string): string => `
  const { createSocket } = require('node:dgram');
  const { writeFileSync, renameSync } = require('node:fs');
  for (const n of [1, 2]) {
    const socket = createSocket('udp4');
    socket.bind(8080, '10.244.0.' + (n + 1));
    socket.on('message', (_, from) => socket.send(String(n), from.port, from.address));
  }
  for (const [name, address, port] of [['web', '10.96.0.11', 4000], ['cart', '10.96.0.12', 4001]]) {
    const socket = createSocket('udp4');
    let answer = '';
    socket.on('error', () => {});
    socket.on('message', (text) => { answer = String(text); });
    socket.bind(port, '192.0.2.11', () => setInterval(() => {
      writeFileSync('${directory}/' + name + '.tmp', answer);
      renameSync('${directory}/' + name + '.tmp', '${directory}/' + name);
      answer = '';
      socket.send('who', 80, address, () => {});
    }, 20));
  }
`;

describe.each(['nft', 'legacy'] as const)('connections of UDP on %s', (backend) => {
  beforeEach((context) => needBackend(context, backend));

  test('a client moves to the new endpoint at once, also from none and over none, and another Service keeps its entry', async () => {
    const { directory } = node;
    node.writeConfig(backend);
    const setUp = ['192.0.2.11', '10.244.0.2', '10.244.0.3'].map((one) => `ip addr add ${one}/32 dev lo`).join(' && ');
    await node.tool(['sh', '-c', `${setUp} && ip route add 10.96.0.0/12 dev lo`]);
    // Connections are tracked once a rule needs it.
    await node.tool([`iptables-${backend}`, '-A', 'OUTPUT', '-m', 'conntrack', '--ctstate', 'NEW']);
    writeFileSync(`${directory}/clients.cjs`, program(directory));
    node.startProgram([process.execPath, `${directory}/clients.cjs`]);
    const who = (name: string): string => readFileSync(`${directory}/${name}`, 'utf8');
    const put = async (web: readonly number[]): Promise<void> => {
      writeBundle(`${directory}/rendered`, bundle({ 'shop/web': web, 'shop/cart': [2] }));
      expect(await node.apply()).toMatchObject({ exitCode: 0 });
    };
    const entry = async (port: number): Promise<string> =>
      (await node.tool(['conntrack', '-L', '-p', 'udp', '--orig-port-src', String(port), '-o', 'id'])).match(
        / id=\d+/,
      )?.[0] ?? '';
    await until(
      'the clients ask',
      async () => (await entry(4000)).includes('id=') && (await entry(4001)).includes('id='),
    );
    await put([1]);
    await until('who was not served is', async () => who('web') === '1' && who('cart') === '2');
    const kept = await entry(4001);
    await put([2]);
    await until('the client moves', async () => who('web') === '2');
    await put([]);
    await until('nobody answers', async () => who('web') === '');
    await put([1]);
    await until('the client is back', async () => who('web') === '1');
    expect(await entry(4001)).toBe(kept);
  });
});
