// @module-tag all
// @module-tag alone
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { execa } from 'execa';
import { type DebianRoot, debianRoot } from '../nft/debian.ts';
import { needKernel } from './privileges.ts';
import { SluicedNode, until } from './sluiced-node.ts';
import { renderVip, vipFrontend } from './vip-cluster.ts';

/**
 * The recipes of docs/vip.md with the programs of Debian: a node and a backup behind a router, and a client there that opens a connection
 * every 50 ms. The router learns the way to the node by BGP, or the two share the address by VRRP.
 */

const page = readFileSync(join(import.meta.dirname, '../../docs/vip.md'), 'utf8');
const script = join(import.meta.dirname, '../../integrations/vip/sluice-vip');
const vip = '203.0.113.9';
/** An idle machine needs 0.2 to 1.2 s, which is printed and stands in docs/vip.md; one with other work several times as long. */
const limitMs = 2_000;

/** A block of the page. */
const recipe = (language: string): string => new RegExp(`\`\`\`${language}\n([^]*?)\`\`\``).exec(page)?.[1] ?? '';

let packages: DebianRoot;
beforeAll(() => {
  packages = debianRoot('routing', ['keepalived', 'bird2', 'frr']);
}, 300_000);

let [node, router, backup]: SluicedNode[] = [];
const all = (): { readonly node: SluicedNode; readonly router: SluicedNode; readonly backup: SluicedNode } => ({
  node: node!,
  router: router!,
  backup: backup!,
});
beforeEach(needKernel);
beforeEach(async () => {
  node = await SluicedNode.make();
  router = await SluicedNode.make();
  backup = await SluicedNode.make();
});
afterEach(async () => {
  for (const one of [node, router, backup]) await one?.remove();
});

/** A program of a package with the libraries that it was built for, as a file. */
function program(path: string): string {
  const { root } = packages as { readonly root: string };
  const libraries = `${root}/usr/lib/x86_64-linux-gnu`;
  const file = `${all().node.directory}/${path.split('/').at(-1)}`;
  const line = `exec ${libraries}/ld-linux-x86-64.so.2 --library-path ${libraries}:${libraries}/frr ${root}/${path} "$@"`;
  writeFileSync(file, `#!/bin/sh\n${line}\n`);
  chmodSync(file, 0o755);
  return file;
}

/** All on one wire: the router is 192.0.2.1, the node .11 and the backup .12. */
async function connect(): Promise<void> {
  const ends = all();
  const ip = (one: SluicedNode, text: string): Promise<string> => one.tool(['sh', '-ec', text]);
  await ip(
    ends.router,
    'ip link add br0 type bridge; ip link set br0 up; ip addr add 192.0.2.1/24 dev br0; sysctl -qw net.ipv4.conf.all.rp_filter=0',
  );
  for (const [index, one] of [ends.node, ends.backup].entries()) {
    const port = `p${index}`;
    await execa('ip', [
      '-n',
      ends.router.name,
      'link',
      'add',
      port,
      'type',
      'veth',
      'peer',
      'name',
      'eth0',
      'netns',
      one.name,
    ]);
    await ip(ends.router, `ip link set ${port} master br0; ip link set ${port} up`);
    await ip(
      one,
      `ip link set eth0 up; ip addr add 192.0.2.1${index + 1}/24 dev eth0; sysctl -qw net.ipv4.ip_forward=1`,
    );
  }
  const serve = (address: string, port: number, word: string): string =>
    `require('node:http').createServer((_, to) => to.writeHead(200, { connection: 'close' }).end('${word}')).listen(${port}, '${address}');`;
  await ip(ends.node, 'ip addr add 10.244.1.5/32 dev lo');
  ends.node.startProgram([process.execPath, '-e', serve('10.244.1.5', 8080, 'node')]);
  ends.backup.startProgram([process.execPath, '-e', serve('0.0.0.0', 80, 'backup')]);
}

/** A client on the router. */
const client = (): string => `
  const { get } = require('node:http');
  const { writeFileSync, renameSync } = require('node:fs');
  const seen = { node: 0, backup: 0, lost: 0 };
  setInterval(() => {
    const one = get({ host: '${vip}', port: 80, agent: false, timeout: 4000 }, (answer) => {
      let body = '';
      answer.on('data', (part) => (body += part));
      answer.on('end', () => { seen[body] += 1; });
    });
    one.on('timeout', () => one.destroy());
    one.on('error', () => { seen.lost += 1; });
  }, 50);
  setInterval(() => { writeFileSync('${all().router.directory}/seen.new', JSON.stringify(seen)); renameSync('${all().router.directory}/seen.new', '${all().router.directory}/seen'); }, 50);
`;

interface Seen {
  readonly node: number;
  readonly backup: number;
  readonly lost: number;
}
const seen = (): Seen => {
  const path = `${all().router.directory}/seen`;
  return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Seen) : { node: 0, backup: 0, lost: 0 };
};

/** Writes when the node begins and ceases to be announced, each tenth of a second. @param look shell text: exit code 0 while it is */
function record(where: SluicedNode, look: string): void {
  const file = `${all().node.directory}/announced`;
  const loop = `last=; while :; do if ${look}; then now=yes; else now=no; fi; [ "$now" = "$last" ] || echo "$(date +%s%3N) $now" >>${file}; last=$now; sleep 0.1; done`;
  where.startProgram(['sh', '-c', loop]);
}
const announced = (): readonly { readonly atMs: number; readonly is: string }[] => {
  const path = `${all().node.directory}/announced`;
  const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
  return text.split('\n').flatMap((line) => {
    const [at, is] = line.split(' ');
    return is === undefined ? [] : [{ atMs: Number(at), is }];
  });
};
const isAnnounced = (): boolean => announced().at(-1)?.is === 'yes';

/** Makes trouble until the announcement ends. @returns how long that takes, in milliseconds */
async function withdrawn(cause: () => unknown): Promise<number> {
  await until('it is announced', async () => isAnnounced(), 40_000);
  const beganMs = Date.now();
  await cause();
  const causedMs = Date.now();
  const end = await until('it is withdrawn', async () =>
    announced().find(({ atMs, is }) => atMs >= beganMs && is === 'no'),
  );
  return Math.max(0, end.atMs - causedMs);
}

/** The four troubles one after the other, each with its end. @returns those that took too long, and what clients lost by a drain and back */
async function troubles(name: string): Promise<{ readonly late: readonly unknown[]; readonly lost: number }> {
  const { node: own } = all();
  const took: Record<string, number> = {};
  const config = `vip: {frontends: ['${vipFrontend}'], directory: ${own.directory}/vip}\n`;
  own.writeConfig('nft', config);
  renderVip(own, 'nftables', ['10.244.1.5']);
  let daemon = own.start();
  await until('it is announced', async () => isAnnounced(), 40_000);
  all().router.startProgram([process.execPath, '-e', client()]);
  await until('clients reach the node', async () => seen().node > 20);

  const before = seen().lost;
  took['drain'] = await withdrawn(() => own.sluiced('drain'));
  await until('clients reach the backup', async () => seen().backup > 20);
  const { node: served } = seen();
  await own.sluiced('undrain');
  await until('clients reach the node again', async () => seen().node > served + 20, 40_000);
  const lost = seen().lost - before;

  took['last endpoint'] = await withdrawn(() => renderVip(own, 'nftables', []));
  renderVip(own, 'nftables', ['10.244.1.5']);
  took['flushes'] = await withdrawn(async () => {
    const flush = 'nft delete table inet sluice 2>/dev/null';
    own.startProgram(['sh', '-c', `sleep 0.2; for i in $(seq 20); do ${flush}; sleep 0.1; done`]);
    await own.tool(['sh', '-c', `${flush} || true`]);
  });
  await own.kill(daemon, 'SIGTERM');
  daemon = own.start();
  took['dead daemon'] = await withdrawn(() => own.kill(daemon));
  process.stdout.write(`${name}: until withdrawn, ms: ${JSON.stringify(took)}; lost by a drain and back: ${lost}\n`);
  return { late: Object.entries(took).filter(([, ms]) => ms > limitMs), lost };
}

/** Follows the answer with two commands. */
function follow(up: string, down: string): void {
  const { node: own } = all();
  own.startProgram(['env', `SLUICE_VIP_DIRECTORY=${own.directory}/vip`, 'sh', script, vipFrontend, up, down]);
}

/** BIRD as the router, with a worse way to the backup. */
async function startRouter(): Promise<void> {
  const { router: own, backup: other } = all();
  await other.tool(['ip', 'addr', 'add', `${vip}/32`, 'dev', 'lo']);
  await own.tool(['ip', 'route', 'add', `${vip}/32`, 'via', '192.0.2.12', 'metric', '1000']);
  const config = `router id 192.0.2.1;
protocol device {}
protocol kernel { metric 32; ipv4 { import none; export all; }; }
protocol bgp node { local 192.0.2.1 as 64513; neighbor 192.0.2.11 as 64512; connect retry time 1; ipv4 { import all; export none; }; }
`;
  writeFileSync(`${own.directory}/bird.conf`, config);
  own.startProgram([program('usr/sbin/bird'), '-f', '-c', `${own.directory}/bird.conf`, '-s', `${own.directory}/ctl`]);
  record(own, `ip route show ${vip} | grep -q 192.0.2.11`);
}

/** Debian's build reads the options that it was built with from /etc. */
function startKeepalived(one: SluicedNode): void {
  const { root } = packages as { readonly root: string };
  cpSync(`${root}/etc/keepalived`, `${one.directory}/etc/keepalived`, { recursive: true });
  const files = ['-f', `${one.directory}/keepalived.conf`, '-p', `${one.directory}/pid`, '-r', `${one.directory}/vrrp`];
  const overlay = `mount -t overlay overlay -o lowerdir=${one.directory}/etc:/etc /etc &&`;
  one.startProgram([program('usr/sbin/keepalived'), '-n', '-l', '-P', ...files], overlay);
}

describe('an address is withdrawn, and comes back without a lost connection', () => {
  test('BIRD', { timeout: 300_000 }, async (context) => {
    context.skip('lack' in packages, 'lack' in packages ? packages.lack : '');
    const { node: own } = all();
    await connect();
    await startRouter();
    writeFileSync(`${own.directory}/bird.conf`, `router id 192.0.2.11;\nprotocol device {}\n${recipe('bird')}`);
    const control = `${own.directory}/ctl`;
    own.startProgram([program('usr/sbin/bird'), '-f', '-c', `${own.directory}/bird.conf`, '-s', control]);
    const birdc = `${program('usr/sbin/birdc')} -s ${control}`;
    const [, up = '', down = ''] = /sluice-vip \S+ '(.+)' '(.+)'/.exec(recipe('ini')) ?? [];
    follow(up.replace('birdc', birdc), down.replace('birdc', birdc));
    expect(await troubles('BIRD')).toEqual({ late: [], lost: 0 });
  });

  test('FRR', { timeout: 300_000 }, async (context) => {
    context.skip('lack' in packages, 'lack' in packages ? packages.lack : '');
    const { node: own } = all();
    await connect();
    await startRouter();
    const sockets = `${own.directory}/frr`;
    mkdirSync(sockets);
    writeFileSync(`${own.directory}/bgpd.conf`, recipe('frr'));
    // Instead of Debian's PAM, which is not configured here.
    writeFileSync(`${sockets}/vtysh.conf`, 'username root nopassword\nno service integrated-vtysh-config\n');
    const args = ['-f', `${own.directory}/bgpd.conf`, '-i', `${sockets}/pid`, '--vty_socket', sockets, '-n', '-Z'];
    own.startProgram([program('usr/lib/frr/bgpd'), ...args, '-u', 'root', '-g', 'root', '-S', '-P', '0']);
    const vtysh = `${program('usr/bin/vtysh')} --vty_socket ${sockets} --config_dir ${sockets}`;
    const [up = '', down = ''] = recipe('sh').split('\n');
    follow(up.replace('vtysh', vtysh), down.replace('vtysh', vtysh));
    expect(await troubles('FRR')).toEqual({ late: [], lost: 0 });
  });

  test('keepalived', { timeout: 300_000 }, async (context) => {
    context.skip('lack' in packages, 'lack' in packages ? packages.lack : '');
    const { node: own, backup: other, router: third } = all();
    await connect();
    await third.tool(['ip', 'route', 'add', `${vip}/32`, 'dev', 'br0']);
    const run = `/usr/bin/env SLUICE_VIP_DIRECTORY=${own.directory}/vip /bin/sh ${script}`;
    const text = recipe('keepalived').replace('/bin/sh /usr/share/sluice/sluice-vip', run);
    const global = 'global_defs {\n  script_user root\n}\n';
    writeFileSync(`${own.directory}/keepalived.conf`, `${global}${text}`);
    const backupText = text
      .replace(/vrrp_script[^]*?\n\}\n/, '')
      .replace(/ {2}track_script \{[^]*?\n {2}\}\n/, '')
      .replace('priority 150', 'priority 100');
    writeFileSync(`${other.directory}/keepalived.conf`, backupText);
    for (const one of [own, other]) startKeepalived(one);
    record(own, `ip -4 addr show dev eth0 | grep -q ${vip}/32`);
    expect(await troubles('keepalived')).toEqual({ late: [], lost: 0 });
  });
});
