// @module-tag all
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import type { Diagnosis } from '@sluice/netfilter';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { StatusReport } from '../../../packages/applier/src/observe/status/status.ts';
import { podAddresses, Shop, type ShopService, shopBundle, until } from './shop.ts';

/** What operators ask a node in mode ipvs, and what only a machine of one's own can show: tables and logs that are one for all namespaces. */

let shop: Shop;
beforeEach(async () => {
  shop = await Shop.open();
}, 240_000);
afterEach(() => shop[Symbol.asyncDispose]());

const web = (...real: readonly string[]): ShopService => ({
  name: 'web',
  address: '10.96.0.11',
  port: 80,
  protocol: 'tcp',
  attributes: '-s rr',
  real: Object.fromEntries(real.map((one) => [one, 1])),
});
const [a, b] = [`${podAddresses.a}:8080`, `${podAddresses.b}:8080`];

async function doctor(...args: readonly string[]): Promise<Diagnosis> {
  const { stdout, stderr } = await shop.sluiced('doctor', ...args, '-o', 'json');
  try {
    return JSON.parse(stdout) as Diagnosis;
  } catch {
    throw new Error(`no diagnosis: ${stdout}${stderr}`);
  }
}

const codesOf = ({ cause, others }: Diagnosis): readonly string[] =>
  [cause, ...others].flatMap((one) => one?.code ?? []);

/** Runs in the first network namespace of the guest. */
function onMachine(script: string): string {
  const { status, stdout, stderr } = spawnSync('sh', ['-ec', script], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${script}: ${stdout}${stderr}`);
  return stdout;
}

test('the doctor names causes in mode ipvs by Service', async () => {
  expect(await shop.apply(shopBundle([web(a, b)]))).toMatchObject({ exitCode: 0 });
  const good = await doctor('shop/web');
  expect([good.cause ?? null, good.unread]).toEqual([null, []]);
  await shop.node.run(['/usr/sbin/ipvsadm', '-d', '-t', '10.96.0.11:80', '-r', a]);
  expect((await doctor('shop/web')).cause).toMatchObject({ code: 'RULES_DIFFER' });
  await shop.node.run(['/usr/sbin/ipvsadm', '-a', '-t', '10.96.0.11:80', '-r', a, '-m', '-w', '1']);
  await shop.node.run(['iptables-nft', '-I', 'INPUT', '-d', '10.96.0.11', '-j', 'DROP']);
  expect((await doctor('10.96.0.11')).cause).toMatchObject({ code: 'FOREIGN_DROP' });
  await shop.node.run(['iptables-nft', '-D', 'INPUT', '-d', '10.96.0.11', '-j', 'DROP']);
  expect(await shop.apply(shopBundle([web()]))).toMatchObject({ exitCode: 0 });
  expect((await doctor('shop/web')).cause).toMatchObject({ code: 'NO_ENDPOINTS' });
}, 900_000);

test('the doctor names modules of another kernel, and a full neighbour table', async () => {
  expect(await shop.apply(shopBundle([web(a, b)]))).toMatchObject({ exitCode: 0 });
  expect(readFileSync('/proc/modules', 'utf8')).not.toBe('');
  await shop.node.run(['sh', '-ec', 'mkdir -p /run/modules/5.4.0; mount --bind /run/modules /lib/modules']);
  expect((await doctor()).cause).toMatchObject({ code: 'MODULES_OF_OTHER_KERNEL' });
  const thresholds = [1, 2, 3].map((n) => `/proc/sys/net/ipv4/neigh/default/gc_thresh${n}`);
  const before = thresholds.map((path) => readFileSync(path, 'utf8'));
  try {
    for (const path of thresholds) writeFileSync(path, '16\n');
    onMachine(
      'ip link add full type dummy; ip link set full up; ip addr add 192.168.77.1/24 dev full; for n in $(seq 2 40); do ip neigh add 192.168.77.$n lladdr 02:00:00:00:00:01 nud reachable dev full 2>/dev/null || true; done',
    );
    // The limit is shown in the first network namespace alone, whose rules are not those of the node.
    const { status, stdout } = spawnSync(process.execPath, [shop.program, 'doctor', '-o', 'json', ...shop.config], {
      encoding: 'utf8',
    });
    expect(status).toBe(1);
    expect(codesOf(JSON.parse(stdout) as Diagnosis)).toContain('NEIGHBOUR_TABLE_FULL');
  } finally {
    for (const [at, path] of thresholds.entries()) writeFileSync(path, before[at] ?? '');
    onMachine('ip link del full');
  }
}, 900_000);

test('a traced packet names the rule of store legacy that dropped it, by the log of the kernel', async (context) => {
  const all = '/proc/sys/net/netfilter/nf_log_all_netns';
  spawnSync('modprobe', ['-a', 'nf_log_syslog', 'xt_TRACE', 'xt_mark']);
  if (!existsSync(all)) context.skip('this kernel has no log of packets');
  expect(await shop.apply(shopBundle([web(a, b)]))).toMatchObject({ exitCode: 0 });
  const before = readFileSync(all, 'utf8');
  writeFileSync(all, '1\n');
  try {
    // Whether a mark matches is not known without a packet. Virtual servers have translated it before.
    await shop.node.run([
      'sh',
      '-ec',
      'iptables-legacy -A OUTPUT -d 10.244.1.0/24 -p tcp -m mark ! --mark 0x77 -j DROP',
    ]);
    expect(codesOf(await doctor('shop/web'))).not.toContain('FOREIGN_DROP');
    const { cause } = await doctor('shop/web', '--live');
    const rule = 'OUTPUT -d 10.244.1.0/24 -p tcp -m mark ! --mark 0x77 -j DROP';
    expect(cause).toMatchObject({ code: 'FOREIGN_DROP', fix: `iptables-legacy -t filter -D ${rule}` });
  } finally {
    writeFileSync(all, before);
  }
}, 900_000);

test('counts connections, live ones and bytes in mode ipvs', async () => {
  shop.configure('countConnections: true', 'countTraffic: true', 'listen: 127.0.0.1:10276');
  const talk = { ...web(`${podAddresses.c}:9000`), name: 'talk', address: '10.96.0.12' };
  expect(await shop.apply(shopBundle([web(a, b), talk]))).toMatchObject({ exitCode: 0 });
  // Before the daemon starts: a reading takes long here, the pause after it is 250 times as long, and the kernel has counted already.
  await shop.ask(web(a, b), 6);
  shop.host('client').start([process.execPath, '-e', `require('net').connect(80, '10.96.0.12').write('x')`]);
  const tracked = ['/usr/sbin/ipvsadm', '-L', '-n', '-c'];
  await until('it is open', async () => /ESTABLISHED +\S+ +10\.96\.0\.12:80 /.test(await shop.node.run(tracked)));
  shop.run();
  const services = async (): Promise<NonNullable<StatusReport['services']>> => {
    // Before the first reading there is no document. `status` would compare the kernel, which takes long here.
    const { stdout } = await shop.sluiced('top', '-o', 'json');
    return stdout === '' ? [] : ((JSON.parse(stdout) as StatusReport).services ?? []);
  };
  const [own, other] = await until(
    'both readings are there',
    async () => {
      const all = await services();
      const found = ['shop/web', 'shop/talk'].flatMap((name) => all.find(({ service }) => service === name) ?? []);
      return (
        found.length === 2 && found.every(({ live, connections }) => live !== null && connections !== null) && found
      );
    },
    400,
  );
  expect([own?.connections, other?.connections, other?.live]).toEqual([6, 1, 1]);
  expect(own?.bytes).toBeGreaterThan(6 * 100);
  expect(own?.endpoints.map(({ endpoint, connections }) => `${endpoint} ${connections}`).toSorted()).toEqual([
    `${a} 3`,
    `${b} 3`,
  ]);
  const { stdout, exitCode } = await shop.sluiced('top', '--once', '--sort', 'live');
  expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/^shop\/talk +1 +\S+ +1 +[\d.]+ \w+$/m)]);
}, 900_000);
