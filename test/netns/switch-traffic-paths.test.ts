import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { execa } from 'execa';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { SluicedNode, until } from './sluiced-node.ts';

/**
 * Clients on the node (OUTPUT) and behind it (PREROUTING), of TCP and UDP, with new connections all the time and one that stays: releases
 * go in and are taken back around them, and none is lost, misled or left without NAT.
 */

const rounds = process.env['SLUICE_SOAK'] ? 250 : 12;

/** Endpoint n has 10.244.0.(n + 1). Services have 10.96.0.11 and so on, in the order of the bundle. */
const wanted = {
  '10.96.0.11': ['10.244.0.2', '10.244.0.3'],
  '10.96.0.12': ['10.244.0.4'],
  '10.96.0.13': ['10.244.0.5'],
};

/** Every endpoint says which address it was reached at, by HTTP, by UDP, and to whoever stays connected. */
const servers = (ready: string): string => `
  let missing = 8;
  const count = () => { if (--missing === 0) require('node:fs').writeFileSync('${ready}', ''); };
  const { createServer } = require('node:net');
  const { createSocket } = require('node:dgram');
  for (const address of ['10.244.0.2', '10.244.0.3', '10.244.0.4', '10.244.0.5']) {
    createServer((socket) => { socket.on('error', () => {}); socket.on('data', () => socket.write(address + '\\n')); }).listen(8080, address, count);
    const udp = createSocket('udp4');
    udp.bind(8080, address, count);
    udp.on('message', (_, from) => udp.send(address, from.port, from.address));
  }
`;

/** Writes down what each kind of client met, by what it asked for. */
const clients = (file: string): string => `
  const { connect } = require('node:net');
  const { createSocket } = require('node:dgram');
  const { writeFileSync, renameSync } = require('node:fs');
  const wanted = ${JSON.stringify(wanted)};
  const met = {};
  const note = (kind, vip, what) => {
    const seen = wanted[vip].includes(what) ? 'served' : what;
    const key = kind + ' ' + vip;
    met[key] ??= {};
    met[key][seen] = (met[key][seen] ?? 0) + 1;
  };
  const tcp = (vip) => {
    const socket = connect({ host: vip, port: 80, timeout: 3000 }, () => socket.write('who'));
    let done = false;
    const end = (what) => { if (done) return; done = true; note('tcp', vip, what); socket.destroy(); setTimeout(tcp, 3, vip); };
    socket.on('data', (text) => end(String(text).trim()));
    socket.on('timeout', () => end('no answer'));
    socket.on('error', (error) => end(error.code));
  };
  const udp = (vip) => {
    const socket = createSocket('udp4');
    let done = false;
    const end = (what) => { if (done) return; done = true; clearTimeout(timer); note('udp', vip, what); socket.close(); setTimeout(udp, 3, vip); };
    const timer = setTimeout(end, 3000, 'no answer');
    socket.on('error', (error) => end(error.code));
    socket.on('message', (text) => end(String(text)));
    socket.connect(80, vip, () => socket.send('who'));
  };
  const stay = (vip) => {
    const socket = connect({ host: vip, port: 80 });
    let last;
    let asked = Date.now();
    socket.on('connect', () => setInterval(() => {
      if (Date.now() - asked > 3000) { note('long', vip, 'silent'); asked = Date.now(); }
      socket.write('who');
    }, 20));
    socket.on('data', (text) => {
      asked = Date.now();
      for (const who of String(text).trim().split('\\n')) { last ??= who; note('long', vip, who === last ? who : 'moved to ' + who); }
    });
    socket.on('error', (error) => note('long', vip, error.code));
    socket.on('close', () => note('long', vip, 'closed'));
  };
  for (const vip of ['10.96.0.11', '10.96.0.12']) tcp(vip);
  udp('10.96.0.13');
  stay('10.96.0.12');
  setInterval(() => { writeFileSync('${file}.tmp', JSON.stringify(met)); renameSync('${file}.tmp', '${file}'); }, 100);
`;

let node: SluicedNode;
const outside = (): string => `${node.name}-c`;
beforeEach(needKernel);
beforeEach(async () => {
  node = await SluicedNode.make();
});
afterEach(async () => {
  await execa('ip', ['netns', 'delete', outside()], { reject: false });
  await node.remove();
});

/** The Services of TCP, one of UDP, and with `bad` one more, which a probe does not like. */
function put(web: readonly number[], bad?: number): void {
  const more = bad === undefined ? {} : { 'shop/zz': [bad] };
  const files = sampleBundle({ services: { 'shop/web': web, 'shop/cart': [3], 'shop/dns': [4], ...more } });
  const isUdp = (path: string): boolean => path.includes('/dns.');
  const texts = [...files].map(([path, text]) =>
    isUdp(path) ? ([path, text.replaceAll('-m tcp -p tcp', '-m udp -p udp')] as const) : ([path, text] as const),
  );
  rmSync(`${node.directory}/rendered`, { recursive: true, force: true });
  writeBundle(`${node.directory}/rendered`, new Map(texts));
}

/** The node with its endpoints, and a network behind it whose packets come in by PREROUTING. */
async function build(): Promise<void> {
  const inside = [
    ...[2, 3, 4, 5].map((last) => `ip addr add 10.244.0.${last}/32 dev lo`),
    'ip route add 10.96.0.0/12 dev lo',
    'sysctl -qw net.ipv4.ip_forward=1',
    'ip addr add 192.0.2.1/24 dev veth0',
    'ip link set veth0 up',
  ];
  await execa('ip', ['netns', 'add', outside()]);
  await execa('ip', [
    '-n',
    node.name,
    'link',
    'add',
    'veth0',
    'type',
    'veth',
    'peer',
    'name',
    'veth1',
    'netns',
    outside(),
  ]);
  await node.tool(['sh', '-c', inside.join(' && ')]);
  const behind = ['addr add 192.0.2.2/24 dev veth1', 'link set veth1 up', 'route add 10.0.0.0/8 via 192.0.2.1'];
  for (const command of behind) await execa('ip', ['-n', outside(), ...command.split(' ')]);
}

const met = (where: string): Record<string, Record<string, number>> =>
  JSON.parse(readFileSync(`${node.directory}/${where}`, 'utf8')) as Record<string, Record<string, number>>;

describe.each(['nft', 'legacy'] as const)('traffic under %s', { timeout: 3_600_000 }, (backend) => {
  beforeEach((context) => needBackend(context, backend));

  test(`${rounds} releases that go in and ${rounds} that are taken back harm no connection`, async () => {
    const { directory } = node;
    await build();
    const save = `/usr/sbin/xtables-${backend}-multi iptables-${backend}-save`;
    node.writeConfig(
      backend,
      `probes: [{name: bad, exec: [/bin/sh, -c, "! ${save} | grep -q 10.96.0.14"], attempts: 1}]\n`,
    );
    put([1]);
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    writeFileSync(`${directory}/servers.cjs`, servers(`${directory}/ready`));
    node.startProgram([process.execPath, `${directory}/servers.cjs`]);
    await until('the endpoints listen', async () => existsSync(`${directory}/ready`));
    for (const where of ['on', 'behind'])
      writeFileSync(`${directory}/${where}.cjs`, clients(`${directory}/${where}.json`));
    node.startProgram([process.execPath, `${directory}/on.cjs`]);
    const behind = execa('ip', ['netns', 'exec', outside(), process.execPath, `${directory}/behind.cjs`], {
      reject: false,
    });
    const kinds = ['long 10.96.0.12', 'tcp 10.96.0.11', 'tcp 10.96.0.12', 'udp 10.96.0.13'];
    try {
      for (const where of ['on.json', 'behind.json']) {
        await until(`clients are served ${where}`, async () => {
          try {
            return kinds.every((kind) => met(where)[kind]);
          } catch {
            return false;
          }
        });
      }
      for (let round = 0; round < rounds; round++) {
        put(round % 2 === 0 ? [2] : [1]);
        expect(await node.apply()).toMatchObject({ exitCode: 0 });
        put(round % 2 === 0 ? [2] : [1], 10 + (round % 200));
        expect(await node.apply()).toMatchObject({ exitCode: 4 });
      }
      for (const where of ['on.json', 'behind.json']) {
        const seen = met(where);
        expect(Object.fromEntries(kinds.map((kind) => [kind, Object.keys(seen[kind] ?? {})]))).toEqual(
          Object.fromEntries(kinds.map((kind) => [kind, ['served']])),
        );
        const total = Object.values(seen).reduce((sum, { served = 0 }) => sum + served, 0);
        console.log(
          `${backend}, clients ${where.replace('.json', '')} the node: ${total} answers over ${2 * rounds} releases`,
        );
      }
    } finally {
      behind.kill('SIGKILL');
      await behind;
    }
  });
});
