// @module-tag all
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { limits } from '../../../packages/applier/src/limits.ts';
import { podAddresses, Shop, type ShopService, shopBundle, until } from './shop.ts';

/** The event monitor of a node in mode ipvs hears nothing, and another program removes our rules: are they back, and does another one listen? */

let shop: Shop;
beforeEach(async () => {
  shop = await Shop.open();
}, 240_000);
afterEach(() => shop[Symbol.asyncDispose]());

const web: ShopService = {
  name: 'web',
  address: '10.96.0.10',
  port: 80,
  protocol: 'tcp',
  attributes: '-s rr',
  real: { [`${podAddresses.a}:8080`]: 1 },
};

const sh = (script: string): Promise<string> => shop.node.run(['sh', '-c', script]);
/** Rules by which packets meet the virtual server's sets, sets and virtual servers. */
const state = (): Promise<string> =>
  sh('iptables-nft-save -t nat | grep "^-A" | sort; ipset save | grep "^add KUBE" | sort; ipvsadm -Sn; true');

/** Processes of the node that read events: what counts changes is a stopped one with another option. */
const monitors = async (): Promise<readonly string[]> =>
  (
    await sh(`for file in /proc/[0-9]*/cmdline; do
    case "$(tr '\\0' ' ' <$file)" in *'xtables-monitor --event ') echo $file | cut -d/ -f3 ;; esac
  done 2>/dev/null; true`)
  )
    .split('\n')
    .filter(Boolean);

test('while the monitor is stopped, flushed rules, sets and virtual servers are back, and another one listens', {
  timeout: 900_000,
}, async () => {
  shop.put(shopBundle([web]));
  const daemon = shop.run();
  await until('it serves', async () => (await shop.servers().catch(() => [])).length === 2);
  const first = await until('a monitor runs', async () => (await monitors())[0]);
  // Virtual servers come before the addresses that are bound.
  const answers = async (): Promise<boolean> => (await shop.ask(web, 1))[0] === 'a';
  await until('packets are served', answers);
  // The first comparison follows when the monitor is relied on.
  await sleep(limits.monitorTrustMs + limits.hearPauseMs + limits.readBackMs + 1_000);
  const good = await state();
  await sh(`kill -STOP ${first}`);
  for (const flush of [
    'iptables-nft -t nat -F; iptables-nft -F; for set in $(ipset list -n | grep KUBE); do ipset flush $set; done',
    'ipvsadm -C',
  ]) {
    const sinceMs = performance.now();
    await sh(flush);
    expect(await state()).not.toBe(good);
    await until(`repaired after ${flush}`, async () => (await state()) === good, 400);
    process.stdout.write(`guest: deaf, ${flush.slice(0, 12)}: away ${Math.round(performance.now() - sinceMs)} ms\n`);
    await until('packets are served again', answers);
  }
  await until('another monitor runs', async () => (await monitors()).some((pid) => pid !== first), 400);
  await daemon.stop();
});
