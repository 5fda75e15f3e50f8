// @module-tag all
import { afterAll, beforeAll, expect, test } from 'vitest';
import { podAddresses, Shop, type ShopService, shopBundle } from './shop.ts';

/** `sluiced show` in mode ipvs, where rules and virtual servers have no comment with their Service. */

let shop: Shop;
beforeAll(async () => {
  shop = await Shop.open();
}, 240_000);
afterAll(() => shop[Symbol.asyncDispose]());

const service = (name: string, address: string): ShopService => ({
  name,
  address,
  port: 80,
  protocol: 'tcp',
  attributes: '-s rr',
  real: { [`${podAddresses.a}:8080`]: 1, [`${podAddresses.b}:8080`]: 1 },
});

test('prints the virtual servers that its files name, and reports a missing one', async () => {
  expect(await shop.apply(shopBundle([service('web', '10.96.0.11'), service('cart', '10.96.0.12')]))).toMatchObject({
    exitCode: 0,
  });
  const good = await shop.sluiced('show', 'shop/web');
  const held = (text: string): readonly string[] => text.split('\n').filter((line) => /^[ +-] -[Aa] -t /.test(line));
  expect(good).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('mode ipvs') as string });
  expect(held(good.stdout)).toEqual(
    (await shop.servers()).filter((line) => line.includes(' 10.96.0.11:80 ')).map((line) => `  ${line.trim()}`),
  );
  await shop.node.run(['/usr/sbin/ipvsadm', '-d', '-t', '10.96.0.11:80', '-r', `${podAddresses.a}:8080`]);
  const bad = await shop.sluiced('show', 'shop/web');
  expect([bad.exitCode, held(bad.stdout).filter((line) => !line.startsWith(' '))]).toEqual([
    1,
    [`- -a -t 10.96.0.11:80 -r ${podAddresses.a}:8080 -m -w 1`],
  ]);
}, 600_000);
