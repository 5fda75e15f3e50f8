// @module-tag test
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { atTier, reaches } from '@sluice/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sampleBundle } from '../../../packages/applier/src/testing/bundle.fixture.ts';
import { podAddresses, Shop, type ShopService, shopBundle, until } from './shop.ts';

/** A node changes its mode under load: the losses, and that nothing of the other mode is left. */

let shop: Shop;
beforeAll(async () => {
  shop = await Shop.open();
}, 240_000);
afterAll(() => shop[Symbol.asyncDispose]());

/** The first Service of a sample bundle. UDP: a lost packet is not retransmitted, so that every loss is counted. */
const web: ShopService = {
  name: 'web',
  address: '10.96.0.11',
  port: 80,
  protocol: 'udp',
  attributes: '-s rr',
  real: { [`${podAddresses.a}:8080`]: 1, [`${podAddresses.b}:8080`]: 1 },
};
const ipvs = shopBundle([web]);
/** The number of parallel clients; they share the emulated machine's processor with the change. */
const clients = atTier({ quick: 2, soak: 4 });
/** Endpoints 254 and 255 of a sample bundle are 10.244.1.5 and 10.244.1.6. */
const iptables = new Map(
  [...sampleBundle({ services: { 'shop/web': [254, 255] }, families: ['ipv4'] })].map(([path, text]) => [
    path,
    text.replaceAll('-m tcp -p tcp', '-m udp -p udp'),
  ]),
);

/** Sends requests in a loop, a few in parallel. */
class ClientLoad {
  readonly #asked: { readonly at: number; readonly ok: boolean }[] = [];
  readonly #askers: readonly Promise<void>[];
  #stopped = false;

  constructor(askers: number) {
    this.#askers = Array.from({ length: askers }, () => this.#ask());
  }

  async #ask(): Promise<void> {
    const client = shop.host('client');
    while (!this.#stopped) {
      const at = performance.now();
      const reply = await client.connect({ protocol: 'udp', to: web.address, port: web.port, timeoutMs: 1_500 });
      this.#asked.push({ at, ok: reply.kind === 'answer' });
    }
  }

  /** Ends it. @returns the numbers of requests and losses, and the time from the first loss to the last, in milliseconds */
  async stop(): Promise<{ asked: number; lost: number; windowMs: number }> {
    this.#stopped = true;
    await Promise.all(this.#askers);
    const lost = this.#asked.filter(({ ok }) => !ok).map(({ at }) => at);
    const windowMs = lost.length === 0 ? 0 : Math.max(...lost) - Math.min(...lost);
    return { asked: this.#asked.length, lost: lost.length, windowMs: Math.round(windowMs) };
  }
}

/** A client that keeps its port, as resolvers do, and counts its answers in a file. */
const steadyClient = (file: string): string => `
  const { renameSync, writeFileSync } = require('node:fs');
  const socket = require('node:dgram').createSocket('udp4');
  let answers = 0;
  socket.on('error', () => {}).on('message', () => answers++);
  socket.bind(4000, () => setInterval(() => {
    socket.send('who', ${web.port}, '${web.address}', () => {});
    writeFileSync('${file}.new', String(answers));
    renameSync('${file}.new', '${file}');
  }, 200));`;

/** The leftovers of each mode. */
const left = async (): Promise<{ servers: number; sets: string; link: boolean; chains: boolean }> => ({
  servers: (await shop.servers()).length,
  sets: await shop.node.run(['sh', '-c', 'ipset list -n | grep -v ^SLUICE || true']),
  link: (await shop.node.run(['sh', '-c', 'ip -br link'])).includes('kube-ipvs0'),
  chains: (await shop.node.run(['sh', '-c', 'iptables-nft-save'])).includes('shop/web'),
});

test('changes from iptables to ipvs and back under load, and counts the losses', { timeout: 600_000 }, async () => {
  expect(await shop.apply(iptables)).toMatchObject({ exitCode: 0 });
  const before = await left();
  expect(before).toMatchObject({ servers: 0, link: false, chains: true });
  const file = join(shop.directory, 'steady');
  shop.host('client').start([process.execPath, '-e', steadyClient(file)]);
  const answers = (): number => (existsSync(file) ? Number(readFileSync(file, 'utf8')) : 0);
  for (const [way, files, after] of [
    ['iptables → ipvs', ipvs, { servers: 3, link: true, chains: false }],
    ['ipvs → iptables', iptables, before],
  ] as const) {
    expect(await shop.ask(web, 4)).not.toContain('timeout');
    const load = new ClientLoad(clients);
    expect(await shop.apply(files)).toMatchObject({ exitCode: 0 });
    const { asked, lost, windowMs } = await load.stop();
    process.stdout.write(`guest: ${way}: ${lost} of ${asked} lost, within ${windowMs} ms\n`);
    expect(lost).toBeLessThan(asked / 4);
    for (const answer of await shop.ask(web, 8)) expect(['a', 'b']).toContain(answer);
    expect(await left()).toMatchObject(after);
    const seen = answers();
    await until(`${way}: a client that keeps its port is served`, async () => answers() > seen + 3);
  }
});

// A run that a pull request waits for must end within minutes.
test.runIf(reaches('soak'))(
  'rolls back to the old mode when a probe fails in the new one, which leaves nothing',
  {
    timeout: 600_000,
  },
  async () => {
    expect(await shop.apply(iptables)).toMatchObject({ exitCode: 0 });
    const before = await left();
    shop.configure('probes:', "  - { name: mode, attempts: 1, exec: [/bin/sh, -c, '! ip link show dev kube-ipvs0'] }");
    expect(await shop.apply(ipvs)).toMatchObject({ exitCode: 4 });
    shop.configure();
    expect(await left()).toEqual(before);
    for (const answer of await shop.ask(web, 8)) expect(['a', 'b']).toContain(answer);
  },
);
