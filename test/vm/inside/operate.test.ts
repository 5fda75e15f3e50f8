// @module-tag all
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import type { Diagnosis } from '@sluice/netfilter';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { podAddresses, Shop, type ShopService, shopBundle } from './shop.ts';

/** What operators ask a node in mode ipvs, and what only a machine of its own can show: tables that are one for all namespaces. */

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
