// @module-tag all
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { atTier } from '@sluice/testing';
import { execa } from 'execa';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { type DataPlane, plainPlanes, SluicedNode, until } from './sluiced-node.ts';

/**
 * Clients on the node (OUTPUT), behind it (PREROUTING) and in a pod that reaches itself through its own Services (hairpin), of TCP and
 * UDP, IPv4 and IPv6, with new connections all the time and one that stays open, while releases are applied and rolled back: none is
 * lost, misdirected or left without NAT.
 */

const rounds = atTier({ quick: 12, soak: 250 });

const addressesOf = (n: number): readonly string[] => [`10.244.0.${n + 1}`, `fd00:10::${n.toString(16)}`];
/** The VIPs of a Service by its place in the bundle. */
const vipsOf = (index: number): readonly string[] => [`10.96.0.${index + 11}`, `fd00:96::${(index + 10).toString(16)}`];

/** Two endpoints replaced at once are a release. The pod is the only endpoint of its two Services. */
const [first, second, cart, dns, pod] = [[1, 11], [2, 12], [3], [4], [100]] as const;
const names = ['shop/web', 'shop/cart', 'shop/dns', 'shop/self', 'shop/sip'] as const;
const endpoints = [[...first, ...second], cart, dns, pod, pod];
const ofUdp = [2, 4];
const addresses = [...first, ...second, ...cart, ...dns].flatMap(addressesOf);

/** The VIPs that a client connects to, and the answers that each may give. */
const allowedFor = (services: readonly number[]): Readonly<Record<string, readonly string[]>> =>
  Object.fromEntries(
    services.flatMap((index) =>
      vipsOf(index).map((vip, family) => [vip, (endpoints[index] ?? []).map((n) => addressesOf(n)[family] ?? '')]),
    ),
  );
/** A client's place, the Services that it connects to, and the one that it stays connected to. */
const places = [
  { place: 'on', asks: [0, 1, 2], stays: 1 },
  { place: 'behind', asks: [0, 1, 2], stays: 1 },
  { place: 'inside', asks: [3, 4], stays: 3 },
] as const;

/** Every endpoint answers with the address it was reached at, over TCP, UDP, and each open connection. */
const servers = (ready: string, at: readonly string[]): string => `
  let missing = ${2 * at.length};
  const count = () => { if (--missing === 0) require('node:fs').writeFileSync('${ready}', ''); };
  const { createServer } = require('node:net');
  const { createSocket } = require('node:dgram');
  for (const address of ${JSON.stringify(at)}) {
    createServer((socket) => { socket.on('error', () => {}); socket.on('data', () => socket.write(address + '\\n')); }).listen(8080, address, count);
    const udp = createSocket(address.includes(':') ? 'udp6' : 'udp4');
    udp.bind(8080, address, count);
    udp.on('message', (_, from) => udp.send(address, from.port, from.address));
  }
`;

/** Records the answers to each kind of client, by VIP. */
const clients = (file: string, { asks, stays }: (typeof places)[number]): string => `
  const { connect } = require('node:net');
  const { createSocket } = require('node:dgram');
  const { writeFileSync, renameSync } = require('node:fs');
  const wanted = ${JSON.stringify(allowedFor(asks))};
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
    const socket = createSocket(vip.includes(':') ? 'udp6' : 'udp4');
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
  for (const vip of ${JSON.stringify(asks.filter((one) => !ofUdp.includes(one)).flatMap(vipsOf))}) tcp(vip);
  for (const vip of ${JSON.stringify(asks.filter((one) => ofUdp.includes(one)).flatMap(vipsOf))}) udp(vip);
  for (const vip of ${JSON.stringify(vipsOf(stays))}) stay(vip);
  setInterval(() => { writeFileSync('${file}.tmp', JSON.stringify(met)); renameSync('${file}.tmp', '${file}'); }, 100);
`;

let node: SluicedNode;
const outside = (): string => `${node.name}-c`;
const inside = (): string => `${node.name}-p`;
let running: Promise<unknown>[] = [];
const stop = new Set<() => void>();
beforeEach(needKernel);
beforeEach(async () => {
  node = await SluicedNode.make();
});
afterEach(async () => {
  for (const kill of stop) kill();
  stop.clear();
  await Promise.all(running);
  running = [];
  for (const name of [outside(), inside()]) await execa('ip', ['netns', 'delete', name], { reject: false });
  await node.remove();
});

/** The Services, with `bad` one more, which fails a probe. */
function put(mode: DataPlane['mode'], web: readonly number[], bad?: number): void {
  const ends = [web, cart, dns, pod, pod];
  const services = Object.fromEntries(names.map((name, index) => [name, ends[index] ?? []]));
  const more = bad === undefined ? {} : { 'shop/zz': [bad] };
  const options = { services: { ...services, ...more }, families: ['ipv4', 'ipv6'], mode };
  const isUdp = (path: string): boolean => ofUdp.some((index) => path.includes(`${names[index]}.`));
  const udp = [...sampleBundle({ ...options, protocol: 'udp' })].filter(([path]) => isUdp(path));
  rmSync(`${node.directory}/rendered`, { recursive: true, force: true });
  writeBundle(`${node.directory}/rendered`, new Map([...sampleBundle(options), ...udp]));
}

/** The node with its endpoints, a network behind it whose packets come in by PREROUTING, and a pod on it. */
async function build(): Promise<void> {
  const ip = async (where: string, commands: readonly string[]): Promise<void> => {
    for (const command of commands) await execa('ip', ['-n', where, ...command.split(' ')]);
  };
  for (const [name, end] of [
    [outside(), 'veth0'],
    [inside(), 'veth2'],
  ] as const) {
    await execa('ip', ['netns', 'add', name]);
    await ip(name, ['link set lo up']);
    await ip(node.name, [`link add ${end} type veth peer name eth0 netns ${name}`, `link set ${end} up`]);
  }
  const isSix = (address: string): boolean => address.includes(':');
  await ip(node.name, [
    ...addresses.map((one) => `addr add ${one}/${isSix(one) ? '128 dev lo nodad' : '32 dev lo'}`),
    'route add 10.96.0.0/12 dev lo',
    'addr add fd00:1::1/64 dev lo nodad',
    '-6 route add fd00:96::/112 dev lo',
    'addr add 192.0.2.1/24 dev veth0',
    'addr add fd00:2::1/64 dev veth0 nodad',
    'addr add 192.0.3.1/24 dev veth2',
    'addr add fd00:3::1/64 dev veth2 nodad',
    ...addressesOf(pod[0]).map((one, family) => `route add ${one} via ${['192.0.3.2', 'fd00:3::2'][family]}`),
  ]);
  await node.tool(['sysctl', '-qw', 'net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1']);
  await ip(outside(), [
    'addr add 192.0.2.2/24 dev eth0',
    'addr add fd00:2::2/64 dev eth0 nodad',
    'link set eth0 up',
    'route add 10.0.0.0/8 via 192.0.2.1',
    '-6 route add fd00:96::/112 via fd00:2::1',
  ]);
  await ip(inside(), [
    'addr add 192.0.3.2/24 dev eth0',
    'addr add fd00:3::2/64 dev eth0 nodad',
    ...addressesOf(pod[0]).map((one) => `addr add ${one}/${isSix(one) ? '128 dev eth0 nodad' : '32 dev eth0'}`),
    'link set eth0 up',
    ...addressesOf(pod[0]).map(
      (one, family) =>
        `${family === 1 ? '-6 ' : ''}route add default via ${['192.0.3.1', 'fd00:3::1'][family]} src ${one}`,
    ),
  ]);
}

/** Starts a program in one of the three namespaces. */
function start(where: string, file: string, text: string): void {
  writeFileSync(file, text);
  if (where === node.name) {
    node.startProgram([process.execPath, file]);
    return;
  }
  const child = execa('ip', ['netns', 'exec', where, process.execPath, file], { reject: false });
  stop.add(() => child.kill('SIGKILL'));
  running.push(child);
}

const met = (where: string): Record<string, Record<string, number>> => {
  try {
    return JSON.parse(readFileSync(`${node.directory}/${where}.json`, 'utf8')) as Record<
      string,
      Record<string, number>
    >;
  } catch {
    return {};
  }
};
const described = { on: 'on the node', behind: 'behind it', inside: 'in a pod that reaches itself' } as const;
/** Each kind of client of a place: `tcp 10.96.0.11`. */
const kindsOf = ({ asks, stays }: (typeof places)[number]): readonly string[] => [
  ...asks.flatMap((index) => vipsOf(index).map((vip) => `${ofUdp.includes(index) ? 'udp' : 'tcp'} ${vip}`)),
  ...vipsOf(stays).map((vip) => `long ${vip}`),
];

describe.each(plainPlanes)('traffic under $backend, mode $mode', { timeout: 3_600_000 }, ({ backend, mode }) => {
  beforeEach((context) => needBackend(context, backend));

  test(`${rounds} confirmed and ${rounds} rolled back releases harm no connection`, async () => {
    const { directory } = node;
    await build();
    // A foreign firewall: no new connection leaves by the interface it came from, except those that kube-proxy's rules accept before. Mode
    // nftables accepts none, as kube-proxy's: there a pod behind such a firewall does not reach itself.
    const back = ['FORWARD', '-i', 'veth2', '-o', 'veth2', '-m', 'conntrack', '--ctstate', 'NEW', '-j', 'DROP'];
    for (const tool of mode === 'nftables' ? [] : ['iptables', 'ip6tables'])
      await node.tool([`${tool}-${backend}`, '-A', ...back]);
    const list =
      mode === 'nftables'
        ? '/usr/sbin/nft list table inet sluice'
        : `/usr/sbin/xtables-${backend}-multi iptables-${backend}-save`;
    node.writeConfig(
      backend,
      `probes: [{name: bad, exec: [/bin/sh, -c, "! ${list} | grep -q 10.96.0.16"], attempts: 1}]\n`,
    );
    put(mode, first);
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    start(node.name, `${directory}/servers.cjs`, servers(`${directory}/ready`, addresses));
    start(inside(), `${directory}/pod.cjs`, servers(`${directory}/ready-pod`, addressesOf(pod[0])));
    for (const ready of ['ready', 'ready-pod'])
      await until('the endpoints listen', async () => existsSync(`${directory}/${ready}`));
    const spaceOf = { on: node.name, behind: outside(), inside: inside() };
    for (const one of places)
      start(spaceOf[one.place], `${directory}/${one.place}.cjs`, clients(`${directory}/${one.place}.json`, one));
    for (const one of places) {
      await until(`clients are served ${one.place}`, async () => kindsOf(one).every((kind) => met(one.place)[kind]));
    }
    for (let round = 0; round < rounds; round++) {
      const web = round % 2 === 0 ? second : first;
      put(mode, web);
      expect(await node.apply()).toMatchObject({ exitCode: 0 });
      put(mode, web, 200 + (round % 40));
      expect(await node.apply()).toMatchObject({ exitCode: 4 });
    }
    for (const one of places) {
      const seen = met(one.place);
      expect(Object.fromEntries(kindsOf(one).map((kind) => [kind, Object.keys(seen[kind] ?? {})]))).toEqual(
        Object.fromEntries(kindsOf(one).map((kind) => [kind, ['served']])),
      );
      const total = Object.values(seen).reduce((sum, { served = 0 }) => sum + served, 0);
      console.log(
        `${backend}, mode ${mode}, clients ${described[one.place]}: ${total} answers over ${2 * rounds} releases`,
      );
    }
  });
});
