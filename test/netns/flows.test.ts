// @module-tag test
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { atTier } from '@sluice/testing';
import { beforeEach, describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { type DataPlane, layoutPlanes, modesOnNft, plainPlanes, until } from './sluiced-node.ts';

/** UDP clients that keep their port, against the real program: they must not stay on removed endpoints. */

withNode();

/** Endpoint n of a sample bundle has the address 10.244.0.(n + 1); Services have 10.96.0.11, 10.96.0.12 and so on. */
const bundle = (
  { mode }: Pick<DataPlane, 'mode'>,
  services: Readonly<Record<string, readonly number[]>>,
): ReadonlyMap<string, string> => sampleBundle({ services, mode, protocol: 'udp' });

/** Endpoints that answer with their number, and two clients that ask every 20 ms from one port each and record the answers. */
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

describe.each(oneInTurn(layoutPlanes, 'flows'))(
  'connections of UDP on $backend, layout $layout, mode $mode',
  ({ backend, layout, mode }) => {
    beforeEach((context) => needBackend(context, backend));

    test('a client moves to the new endpoint at once, also from and by way of no endpoint; another Service keeps its entry', async () => {
      const { directory } = node;
      node.writeConfig(backend, `layout: ${layout}\n`);
      const setUp = ['192.0.2.11', '10.244.0.2', '10.244.0.3']
        .map((one) => `ip addr add ${one}/32 dev lo`)
        .join(' && ');
      await node.tool(['sh', '-c', `${setUp} && ip route add 10.96.0.0/12 dev lo`]);
      // Connections are tracked once a rule needs it.
      await node.tool([`iptables-${backend}`, '-A', 'OUTPUT', '-m', 'conntrack', '--ctstate', 'NEW']);
      writeFileSync(`${directory}/clients.cjs`, program(directory));
      node.startProgram([process.execPath, `${directory}/clients.cjs`]);
      const answerOf = (name: string): string => readFileSync(`${directory}/${name}`, 'utf8');
      const put = async (web: readonly number[]): Promise<void> => {
        writeBundle(`${directory}/rendered`, bundle({ mode }, { 'shop/web': web, 'shop/cart': [2] }));
        expect(await node.apply()).toMatchObject({ exitCode: 0 });
      };
      const entry = async (port: number): Promise<string> =>
        (await node.tool(['conntrack', '-L', '-p', 'udp', '--orig-port-src', String(port), '-o', 'id'])).match(
          / id=\d+/,
        )?.[0] ?? '';
      await until(
        'the clients send',
        async () => (await entry(4000)).includes('id=') && (await entry(4001)).includes('id='),
      );
      await put([]);
      await until('a Service that comes without endpoints rejects them', async () => (await entry(4000)) === '');
      await put([1]);
      await until(
        'clients without an endpoint are served',
        async () => answerOf('web') === '1' && answerOf('cart') === '2',
      );
      const kept = await entry(4001);
      await put([2]);
      await until('the client moves', async () => answerOf('web') === '2');
      await put([]);
      await until('no endpoint answers', async () => answerOf('web') === '');
      await put([1]);
      await until('the client has moved back', async () => answerOf('web') === '1');
      expect(await entry(4001)).toBe(kept);
    });
  },
);

// The entries are the kernel's, whatever store has the rules.
test.each(atTier({ quick: oneInTurn(modesOnNft, 'missed deletion'), all: plainPlanes }))(
  'an entry whose deletion was missed goes within a minute; others stay (on $backend, mode $mode)',
  {
    timeout: 180_000,
  },
  async (plane) => {
    node.writeConfig(plane.backend);
    writeBundle(`${node.directory}/rendered`, bundle(plane, { 'shop/web': [1], 'shop/cart': [2] }));
    node.start();
    await until(
      'the bundle is applied',
      async () => node.journal()?.current !== undefined && (await node.get()) !== undefined,
    );
    const entry = async (address: string, clientPort: number, endpoint: string, port = 8080): Promise<void> => {
      const question = ['-s', '192.0.2.11', '-d', address, '--sport', String(clientPort), '--dport', '80'];
      const answer = ['--reply-src', endpoint, '--reply-dst', '192.0.2.11'];
      const ports = ['--reply-port-src', String(port), '--reply-port-dst', String(clientPort)];
      await node.tool(['conntrack', '-I', '-p', 'udp', '-t', '600', ...question, ...answer, ...ports]);
    };
    const clientPorts = async (): Promise<readonly number[]> =>
      [...(await node.tool(['conntrack', '-L', '-p', 'udp'])).matchAll(/ sport=(410\d) /g)]
        .map(([, port]) => Number(port))
        .toSorted((a, b) => a - b);
    await entry('10.96.0.11', 4101, '10.244.0.2');
    await entry('10.96.0.11', 4102, '10.244.0.99');
    // To the same address, at another Service that has it, and at an address that is none of Sluice's.
    await entry('10.96.0.12', 4103, '10.244.0.3');
    await entry('198.51.100.7', 4104, '10.244.0.99');
    // Not translated: foreign.
    await entry('198.51.100.7', 4105, '198.51.100.7', 80);
    expect(await clientPorts()).toEqual([4101, 4102, 4103, 4104, 4105]);
    await until('the entry is deleted', async () => !(await clientPorts()).includes(4102), 120_000);
    expect(await clientPorts()).toEqual([4101, 4103, 4104, 4105]);
  },
);

test.each(plainPlanes.filter(({ backend }) => atTier({ quick: false, all: backend === 'nft' })))(
  'a client that began while the rules were away is served within a minute of their repair (on $backend, mode $mode)',
  { timeout: 180_000 },
  async (plane) => {
    const { directory } = node;
    node.writeConfig(plane.backend);
    writeBundle(`${directory}/rendered`, bundle(plane, { 'shop/web': [1], 'shop/cart': [2] }));
    const setUp = ['192.0.2.11', '10.244.0.2', '10.244.0.3'].map((one) => `ip addr add ${one}/32 dev lo`).join(' && ');
    await node.tool(['sh', '-c', `${setUp} && ip route add 10.96.0.0/12 dev lo`]);
    // Connections are tracked also while no rule of Sluice needs it.
    const tracking =
      'add table ip x; add chain ip x y { type filter hook output priority 0; }; add rule ip x y ct state new';
    await node.tool(['nft', tracking]);
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    await node.tool(
      plane.mode === 'nftables' ? ['nft', 'delete', 'table', 'inet', 'sluice'] : ['iptables', '-t', 'nat', '-F'],
    );
    writeFileSync(`${directory}/clients.cjs`, program(directory));
    node.startProgram([process.execPath, `${directory}/clients.cjs`]);
    const bare = async (): Promise<boolean> =>
      (await node.tool(['conntrack', '-L', '-p', 'udp', '--orig-port-src', '4000'])).includes(
        'src=10.96.0.11 dst=192.0.2.11',
      );
    await until('a connection has begun', bare);
    node.start();
    const answerOf = (name: string): string => readFileSync(`${directory}/${name}`, 'utf8');
    await until('the clients are served', async () => answerOf('web') === '1' && answerOf('cart') === '2', 120_000);
  },
);

/** Endpoints that count their clients, and clients that ask from one port each; the counts are written every 100 ms. */
const crowd = (directory: string, clients: number, services: number): string => `
  const { createSocket } = require('node:dgram');
  const { writeFileSync, renameSync } = require('node:fs');
  const counts = { 1: new Set(), 2: new Set() };
  for (const n of [1, 2]) {
    const socket = createSocket({ type: 'udp4', recvBufferSize: 1 << 22 });
    socket.bind(8080, '10.244.0.' + (n + 1));
    socket.on('message', (_, from) => counts[n].add(from.address + from.port));
  }
  const sockets = Array.from({ length: ${clients} }, (_, n) => {
    const socket = createSocket('udp4');
    socket.on('error', () => {});
    socket.bind(10000 + n, '192.0.2.11');
    return socket;
  });
  let at = 0;
  setInterval(() => {
    for (let n = 0; n < 500; n++, at = (at + 1) % sockets.length)
      sockets[at].send('who', 80, '10.96.0.' + (11 + (at % ${services})), () => {});
  }, 20);
  setInterval(() => {
    writeFileSync('${directory}/counts.tmp', counts[1].size + ' ' + counts[2].size);
    renameSync('${directory}/counts.tmp', '${directory}/counts');
    counts[1].clear();
    counts[2].clear();
  }, 1000);
`;

/** What a busy machine may say: the clients must move all the same. */
const nothingButSlow =
  /^(?:warning: connections to removed endpoints are not forgotten yet: it takes longer than .*)?$/;

const crowds = oneInTurn(modesOnNft, 'crowds').flatMap((plane) =>
  atTier({ quick: [17, 600], all: [1, 17, 600, 5000] }).map((clients) => ({ clients, plane, mode: plane.mode })),
);

test.each(crowds)(
  'in mode $mode, all of $clients UDP clients leave a removed endpoint, also by way of no endpoint',
  { timeout: 90_000 },
  async ({ clients, plane }) => {
    const { directory } = node;
    const services = Math.min(clients, 20);
    node.writeConfig('nft');
    const setUp = ['192.0.2.11', '10.244.0.2', '10.244.0.3'].map((one) => `ip addr add ${one}/32 dev lo`).join(' && ');
    await node.tool(['sh', '-c', `${setUp} && ip route add 10.96.0.0/12 dev lo`]);
    const names = Array.from({ length: services }, (_, n) => `shop/s${n}`);
    const put = async (endpoints: readonly number[]): Promise<void> => {
      writeBundle(`${directory}/rendered`, bundle(plane, Object.fromEntries(names.map((name) => [name, endpoints]))));
      expect(await node.apply()).toMatchObject({
        exitCode: 0,
        stderr: expect.stringMatching(nothingButSlow) as unknown,
      });
    };
    const counts = (): string => readFileSync(`${directory}/counts`, 'utf8');
    await put([1]);
    writeFileSync(`${directory}/crowd.cjs`, crowd(directory, clients, services));
    node.startProgram([process.execPath, `${directory}/crowd.cjs`]);
    await until('all clients are served', async () => existsSync(`${directory}/counts`) && counts() === `${clients} 0`);
    await put([2]);
    await until('all clients have moved', async () => counts() === `0 ${clients}`);
    await put([]);
    await until('no client is served', async () => counts() === '0 0');
    await put([1]);
    await until('all clients have moved back', async () => counts() === `${clients} 0`);
  },
);

test.each(crowds)(
  'in mode $mode, $clients unanswered TCP connections leave a release that is rolled back',
  { timeout: 60_000 },
  async ({ clients, plane, mode }) => {
    const { directory } = node;
    const setUp = ['192.0.2.11', '10.244.0.2'].map((one) => `ip addr add ${one}/32 dev lo`).join(' && ');
    await node.tool([
      'sh',
      '-c',
      `${setUp} && ip route add 10.96.0.0/12 dev lo && ip link add null type veth peer name null0 && ip link set null arp off up && ip link set null0 up && ip route add 10.244.0.0/24 dev null`,
    ]);
    const of = (endpoints: readonly number[]): ReadonlyMap<string, string> =>
      sampleBundle({ services: { 'shop/web': endpoints }, mode });
    node.writeConfig('nft');
    writeBundle(`${directory}/rendered`, of([1, 2, 3]));
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    // Two of three replaced are a release; none of the new ones answers.
    writeBundle(`${directory}/rendered`, of([7, 8, 9]));
    node.writeConfig('nft', 'probation: {seconds: 300, confirm: manual}\n');
    node.start();
    await until('it is on probation', async () => (await node.endpoints(plane)).includes('10.244.0.8:8080'));
    const connecting = `
    const { connect } = require('node:net');
    for (let n = 0; n < ${clients}; n++) connect({ host: '10.96.0.11', port: 80, localAddress: '192.0.2.11' }).on('error', () => {});
  `;
    writeFileSync(`${directory}/clients.cjs`, connecting);
    node.startProgram([process.execPath, `${directory}/clients.cjs`]);
    const pending = async (): Promise<number> =>
      (await node.tool(['conntrack', '-L', '-p', 'tcp', '--state', 'SYN_SENT']))
        .split('\n')
        .filter((line) => /src=10\.244\.0\.(8|9|10) /.test(line)).length;
    await until('all connections wait', async () => (await pending()) === clients);
    expect(await node.sluiced('cancel')).toMatchObject({ exitCode: 0 });
    await until('it is rolled back', async () => node.journal()?.open === null);
    await until('no entry leads there', async () => (await pending()) === 0);
  },
);
