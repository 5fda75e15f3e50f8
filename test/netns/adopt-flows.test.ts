// @module-tag all
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { Observation } from '@sluice/bundle';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { AdoptNode, type ProxyMode } from './adopt-node.ts';
import { addPods } from './clients.ts';
import { needBackend, needKernel } from './privileges.ts';
import { until } from './until.ts';

/**
 * UDP clients that keep their port while a node moves from kube-proxy and back. kube-proxy sends shop/web to endpoint 1 and Sluice to
 * endpoint 2: an entry that is left would keep the client on an endpoint that its frontend does not have any more.
 */

let node: AdoptNode;
beforeEach(needKernel);
beforeEach((context) => needBackend(context, 'nft'));
beforeEach(async () => {
  node = await AdoptNode.start();
  await addPods(node);
  await node.tool(['ip', 'addr', 'add', '192.0.2.11/32', 'dev', 'lo']);
});
afterEach(() => node.close());

/** Endpoints answer with their number; two clients ask every 20 ms from one port each, and record the last answers and how many failed. */
const program = (directory: string): string => `
  const { createSocket } = require('node:dgram');
  const { writeFileSync, renameSync } = require('node:fs');
  for (const n of [1, 2, 3]) {
    const socket = createSocket('udp4');
    socket.bind(8080, '10.244.0.' + (n + 1));
    socket.on('message', (_, from) => socket.send(String(n), from.port, from.address));
  }
  const last = { web: '', cart: '' };
  const met = { web: {}, cart: {} };
  for (const [name, address, port] of [['web', '10.96.0.11', 4000], ['cart', '10.96.0.12', 4001]]) {
    const socket = createSocket('udp4');
    socket.on('error', () => {});
    socket.on('message', (text) => { last[name] = String(text); met[name][text] = (met[name][text] ?? 0) + 1; });
    socket.bind(port, '192.0.2.11', () => setInterval(() => { last[name] = ''; socket.send('who', 80, address, () => {}); }, 20));
  }
  setInterval(() => {
    writeFileSync('${directory}/met.tmp', JSON.stringify(met));
    renameSync('${directory}/met.tmp', '${directory}/met');
  }, 20);
`;

type Answers = Readonly<Record<'web' | 'cart', Readonly<Record<string, number>>>>;
const answers = (): Answers => JSON.parse(readFileSync(`${node.directory}/met`, 'utf8')) as Answers;

/** Waits until an endpoint has answered ten times more to shop/web, and no other has meanwhile. */
async function isServedBy(endpoint: string): Promise<void> {
  const { web: before } = answers();
  await until(
    `endpoint ${endpoint} answers`,
    async () => (answers().web[endpoint] ?? 0) > 10 + (before[endpoint] ?? 0),
  );
}

async function staysOn(endpoint: string): Promise<void> {
  await isServedBy(endpoint);
  const { web: before } = answers();
  await isServedBy(endpoint);
  expect({ ...answers().web, [endpoint]: 0 }).toEqual({ ...before, [endpoint]: 0 });
}

const moves: readonly (readonly [ProxyMode, 'iptables' | 'nftables'])[] = [
  ['nft', 'iptables'],
  ['nft', 'nftables'],
];

describe.each(moves)("from kube-proxy's rules in %s to mode %s", (proxy, mode) => {
  test('a client of UDP gets an endpoint of the side that serves, there and back', { timeout: 120_000 }, async () => {
    await node.startKubeProxy(proxy, [1], 'udp');
    writeFileSync(`${node.directory}/flows.cjs`, program(node.directory));
    node.startProgram([process.execPath, `${node.directory}/flows.cjs`]);
    await until('the clients run', async () => (answersIfAny()?.cart['3'] ?? 0) > 0);
    await staysOn('1');
    node.writeConfig('nft');
    const services = { 'shop/web': [2], 'shop/cart': [3] };
    writeBundle(`${node.directory}/rendered`, sampleBundle({ services, mode, protocol: 'udp' }));
    const file = `${node.directory}/observed.json`;
    expect(await node.sluiced('observe', '-o', file)).toMatchObject({ exitCode: 0 });
    const { connections } = JSON.parse(readFileSync(file, 'utf8')) as Observation;
    const udp = (frontend: string, endpoint: string) => ({ protocol: 'udp', frontend, endpoint, count: 1 });
    expect(connections).toEqual({
      left: 0,
      pairs: [udp('10.96.0.11:80', '10.244.0.2:8080'), udp('10.96.0.12:80', '10.244.0.4:8080')],
    });
    const there = await node.sluiced('adopt', '--manifest', node.manifest, '--without-parity');
    expect(there).toMatchObject({ exitCode: 0 });
    await staysOn('2');
    expect(await node.sluiced('adopt', '--undo', '--wait', '20')).toMatchObject({ exitCode: 0 });
    await staysOn('1');
    expect(Object.keys(answers().cart)).toEqual(['3']);
  });
});

test('a client of UDP keeps its connection where kube-proxy returns in another mode, beside its old rules', {
  timeout: 120_000,
}, async () => {
  await node.startKubeProxy('nft', [1], 'udp');
  writeFileSync(`${node.directory}/flows.cjs`, program(node.directory));
  node.startProgram([process.execPath, `${node.directory}/flows.cjs`]);
  await until('the clients run', async () => (answersIfAny()?.cart['3'] ?? 0) > 0);
  node.writeConfig('nft');
  const services = { 'shop/web': [2], 'shop/cart': [3] };
  writeBundle(`${node.directory}/rendered`, sampleBundle({ services, protocol: 'udp' }));
  await node.sluiced('adopt', '--daemonset', '--without-parity', '--wait', '0');
  rmSync(node.manifest);
  await until('kube-proxy has stopped', async () => (await node.proxies()) === 0);
  await staysOn('2');
  const connection = (): Promise<string> =>
    node.tool(['sh', '-c', 'conntrack -L -p udp --orig-port-src 4000 -o id 2>/dev/null | grep -o "id=.*"']);
  const before = await connection();
  const undone = node.sluiced('adopt', '--undo', '--wait', '60');
  await until('kube-proxy may return', async () => node.journal()?.adoption?.goal === 'kube-proxy');
  await node.startKubeProxy('nftables', [3, 2], 'udp');
  expect(await undone).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('left in the rule store') });
  await staysOn('2');
  expect(await connection()).toBe(before);
  expect(before).toMatch(/^id=\d+$/);
});

function answersIfAny(): Answers | undefined {
  try {
    return answers();
  } catch {
    return undefined;
  }
}
