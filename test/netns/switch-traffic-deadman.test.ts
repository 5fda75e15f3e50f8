// @module-tag all
// @module-tag alone
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { type DataPlane, plainPlanes, until } from './sluiced-node.ts';

/**
 * New connections all the time while the dead-man switch rolls back, in both families: none is lost of a Service that the release did
 * not change, and each to a changed one is served by one of the two programs.
 */

const deadmanSeconds = 6;

/**
 * The endpoints before the release and on probation; two replaced at once are a release, where one would be an update, which
 * stays when the release is rolled back. Endpoints from 250 on do not answer.
 */
const services = {
  'shop/web': [
    [1, 11],
    [2, 12],
  ],
  'shop/cart': [[3], [3]],
  'shop/gone': [[4], []],
  'shop/dead': [
    [5, 6],
    [250, 251],
  ],
} as const;
const names = ['shop/web', 'shop/cart', 'shop/gone', 'shop/dead'] as const;
const alive = [1, 2, 3, 4, 5, 6, 11, 12];
const addressesOf = (n: number): readonly string[] => [
  `10.244.${Math.floor(n / 250)}.${(n % 250) + 1}`,
  `fd00:10::${n.toString(16)}`,
];
/** Of `names`, in the order of the bundle. */
const vipsOf = (index: number): readonly string[] => [`10.96.0.${index + 11}`, `fd00:96::${(index + 10).toString(16)}`];

/** The answers that clients may get, by Service, from either program. Only one connection goes to the dead endpoints, see `pending`. */
const wanted = Object.fromEntries(
  names.slice(0, 3).flatMap((name, index) => {
    const answers = services[name].flatMap((ends) =>
      ends.length === 0 ? ['ECONNREFUSED'] : ends.flatMap(addressesOf),
    );
    return vipsOf(index).map((vip) => [vip, answers]);
  }),
);

/**
 * Endpoints that answer with the address they were reached at. SIGUSR2: clients connect, and again after each answer. A second SIGUSR2: one
 * more connects to the Service with the dead endpoints, and waits.
 */
const program = (directory: string): string => `
  const { createServer, connect } = require('node:net');
  const { writeFileSync, renameSync } = require('node:fs');
  const wanted = ${JSON.stringify(wanted)};
  const met = {};
  const note = (vip, what) => { met[vip] ??= {}; met[vip][what] = (met[vip][what] ?? 0) + 1; };
  const who = (vip, timeout, then) => {
    let done = false;
    const end = (what) => { if (done) return; done = true; socket.destroy(); then(what); };
    const socket = connect({ host: vip, port: 80, timeout }, () => {});
    socket.on('data', (text) => end(String(text)));
    socket.on('timeout', () => end('no answer'));
    socket.on('error', (error) => end(error.code));
  };
  const ask = (vip) => who(vip, 3000, (what) => { note(vip, wanted[vip].includes(what) ? what : 'misled: ' + what); setTimeout(ask, 3, vip); });
  const save = (name, what) => { writeFileSync('${directory}/tmp', JSON.stringify(what)); renameSync('${directory}/tmp', '${directory}/' + name); };
  createServer((socket) => { socket.on('error', () => {}); socket.end(socket.localAddress.replace('::ffff:', '')); }).listen(8080, '::', () => {
    save('met', met);
    setInterval(() => save('met', met), 100);
  });
  const pending = {};
  process.once('SIGUSR2', () => {
    for (const vip of Object.keys(wanted)) ask(vip);
    process.on('SIGUSR2', wait);
  });
  const wait = () => {
    for (const vip of ${JSON.stringify(vipsOf(3))}) who(vip, 60000, (what) => { pending[vip] = what; save('pending', pending); });
  };
`;

withNode();

function put(onProbation: boolean, mode: DataPlane['mode']): void {
  const ends = Object.fromEntries(names.map((name) => [name, services[name][onProbation ? 1 : 0]]));
  writeBundle(`${node.directory}/rendered`, sampleBundle({ services: ends, families: ['ipv4', 'ipv6'], mode }));
}

/** The node's endpoints. Packets to the dead ones are lost, as are those that leave without NAT: the far end of the link is empty. */
async function build(backend: string): Promise<void> {
  const [four, six] = [0, 1].map((family) => [250, 251].map((n) => addressesOf(n)[family]).join(','));
  const places = [...alive, 250, 251].flatMap((n) => {
    const [v4, v6] = addressesOf(n);
    return [`ip addr add ${v4}/32 dev lo`, `ip addr add ${v6}/128 dev lo nodad`];
  });
  const setUp = [
    ...places,
    'ip link add out type veth peer name nowhere',
    'ip addr add 192.0.2.1/24 dev out',
    'ip addr add fd00:1::1/64 dev out nodad',
    'ip link set out up',
    'ip link set nowhere up',
    'ip route add 10.96.0.0/12 dev out',
    'ip -6 route add fd00:96::/112 dev out',
    `iptables-${backend} -A INPUT -d ${four} -j DROP`,
    `ip6tables-${backend} -A INPUT -d ${six} -j DROP`,
  ];
  await node.tool(['sh', '-c', setUp.join(' && ')]);
}

const read = (name: string): Record<string, unknown> =>
  JSON.parse(readFileSync(`${node.directory}/${name}`, 'utf8')) as Record<string, unknown>;
const met = (): Record<string, Record<string, number>> => read('met') as Record<string, Record<string, number>>;
const served = (vip: string, ...by: readonly number[]): number =>
  by.flatMap(addressesOf).reduce((sum, one) => sum + (met()[vip]?.[one] ?? 0), 0);

describe.each(plainPlanes)(
  'a sluiced that is killed while its release is on probation, on $backend, mode $mode',
  {
    timeout: 120_000,
  },
  ({ backend, mode }) => {
    beforeEach((context) => needBackend(context, backend));

    test('clients are served by one program or the other during the rollback, and connections that wait for an endpoint of the release are served', async () => {
      const { directory } = node;
      await build(backend);
      const probation = (seconds: number): string =>
        `probation: {seconds: ${seconds}, deadmanSeconds: ${deadmanSeconds}}\nprobes: [{name: good, exec: [/bin/true]}]\n`;
      node.writeConfig(backend, probation(0));
      writeFileSync(`${directory}/clients.cjs`, program(directory));
      const clients = node.startProgram([process.execPath, `${directory}/clients.cjs`]);
      await until('the endpoints listen', async () => existsSync(`${directory}/met`));
      put(false, mode);
      expect(await node.apply()).toMatchObject({ exitCode: 0 });
      clients.kill('SIGUSR2');
      await until('clients are served', async () => Object.keys(met()).length === 6);
      node.writeConfig(backend, probation(300));
      put(true, mode);
      const daemon = node.start();
      const [web4 = '', web6 = ''] = vipsOf(0);
      await until(
        'clients meet the release on probation',
        async () => served(web4, 2, 12) > 50 && served(web6, 2, 12) > 50,
      );
      clients.kill('SIGUSR2');
      await until('a connection waits', async () =>
        (await node.tool(['conntrack', '-L', '-p', 'tcp', '--state', 'SYN_SENT'])).includes(`dst=${vipsOf(3)[0]} `),
      );
      daemon.kill('SIGKILL');
      const then = [served(web4, 1, 11), served(web6, 1, 11)];
      await until('the kernel rolls back', async () =>
        [web4, web6].every((vip, index) => served(vip, 1, 11) > (then[index] ?? 0) + 50),
      );
      node.writeConfig(backend, probation(0));
      put(false, mode);
      expect(await node.apply()).toMatchObject({ exitCode: 0 });
      expect(node.journal()?.history.flatMap(({ because }) => because ?? [])[0]).toContain(
        'the kernel uses the old rules',
      );
      await until(
        'the waiting connection is served',
        async () => existsSync(`${directory}/pending`) && Object.keys(read('pending')).length === 2,
        40_000,
      );
      for (const vip of vipsOf(3))
        expect(services['shop/dead'][0].flatMap(addressesOf)).toContain(read('pending')[vip]);
      const seen = met();
      const others = Object.entries(seen).map(([vip, all]) => [
        vip,
        Object.keys(all).filter((one) => !wanted[vip]?.includes(one)),
      ]);
      expect(others).toEqual(Object.keys(seen).map((vip) => [vip, []]));
      for (const vip of vipsOf(2)) expect(seen[vip], 'the release on probation was met').toHaveProperty('ECONNREFUSED');
      const answers = Object.values(seen).flatMap((one) => Object.values(one));
      console.log(
        `${backend}, mode ${mode}: ${answers.reduce((sum, one) => sum + one, 0)} connections over one expiry of the dead-man switch`,
      );
    });
  },
);
