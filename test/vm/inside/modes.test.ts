// @module-tag test
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { atTier, reaches } from '@sluice/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sampleBundle } from '../../../packages/applier/src/testing/bundle.fixture.ts';
import { guestStore } from '../../in-guest.ts';
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
/** The second one. */
const cart: ShopService = { ...web, name: 'cart', address: '10.96.0.12', protocol: 'tcp' };
const ipvs = shopBundle([web, cart]);
/** The number of parallel clients of each Service; they share the emulated machine's processor with the change. */
const clients = atTier({ quick: 2, soak: 4 });

type OtherMode = 'iptables' | 'nftables';

/** Endpoints 254 and 255 of a sample bundle are 10.244.1.5 and 10.244.1.6. */
function bundleOf(mode: OtherMode): ReadonlyMap<string, string> {
  const services = { 'shop/web': [254, 255], 'shop/cart': [254, 255] };
  const [files, udp] = [sampleBundle({ services, mode }), sampleBundle({ services, mode, protocol: 'udp' })];
  for (const [path, text] of udp) if (path.includes('/shop/web.')) files.set(path, text);
  return files;
}

/** Sends requests to a Service in a loop, a few in parallel. */
class ClientLoad {
  readonly #service: ShopService;
  readonly #asked: { readonly at: number; readonly kind: string }[] = [];
  readonly #askers: readonly Promise<void>[];
  #stopped = false;

  constructor(service: ShopService) {
    this.#service = service;
    this.#askers = Array.from({ length: clients }, () => this.#ask());
    // Nothing waits for them where the test fails.
    for (const asker of this.#askers) asker.catch(() => undefined);
  }

  async #ask(): Promise<void> {
    const client = shop.host('client');
    const { protocol, address: to, port } = this.#service;
    while (!this.#stopped) {
      const at = performance.now();
      // For what is lost: a guest on a busy machine may stand still for two seconds.
      const { kind } = await client.connect({ protocol, to, port, timeoutMs: 10_000 });
      this.#asked.push({ at, kind });
    }
  }

  /** Ends it. @returns the numbers of requests and losses, and the time from the first loss to the last, in milliseconds */
  async stop(): Promise<{ asked: number; lost: number; text: string }> {
    this.#stopped = true;
    await Promise.all(this.#askers);
    const lost = this.#asked.filter(({ kind }) => kind !== 'answer');
    const at = lost.map((one) => one.at);
    const within =
      lost.length === 0 ? '' : ` (${lost[0]?.kind}), within ${Math.round(Math.max(...at) - Math.min(...at))} ms`;
    const { length: asked } = this.#asked;
    return { asked, lost: lost.length, text: `${this.#service.protocol} ${lost.length} of ${asked} lost${within}` };
  }
}

interface SteadyAnswers {
  readonly answers: number;
  /** The longest time between two of them. */
  readonly silenceMs: number;
}

/** A client that keeps its port, as resolvers do, and counts its answers in a file, with the longest time between two. */
const steadyClient = (file: string): string => `
  const { renameSync, writeFileSync } = require('node:fs');
  const socket = require('node:dgram').createSocket('udp4');
  const met = { answers: 0, silenceMs: 0 };
  let last;
  socket.on('error', () => {}).on('message', () => {
    const now = performance.now();
    met.silenceMs = Math.max(met.silenceMs, Math.round(now - (last ?? now)));
    last = now;
    met.answers++;
  });
  socket.bind(4000, () => setInterval(() => {
    socket.send('who', ${web.port}, '${web.address}', () => {});
    writeFileSync('${file}.new', JSON.stringify(met));
    renameSync('${file}.new', '${file}');
  }, 200));`;

/** The leftovers of each mode. */
interface Left {
  readonly servers: number;
  readonly sets: string;
  readonly link: boolean;
  /** Chains of Services, or a table. */
  readonly rules: boolean;
}

async function left(): Promise<Left> {
  const run = (script: string): Promise<string> => shop.node.run(['sh', '-c', script]);
  return {
    servers: (await shop.servers()).length,
    sets: await run('ipset list -n | grep -v ^SLUICE || true'),
    link: (await run('ip -br link')).includes('kube-ipvs0'),
    rules: /shop\/web|table inet sluice/.test(await run('iptables-save; nft list tables 2>&1')),
  };
}

// Only the emulated guest has mode nftables.
test.each<OtherMode>(guestStore === 'nft' ? ['iptables', 'nftables'] : ['iptables'])(
  'changes from %s to ipvs and back under load, and loses no connection',
  { timeout: 900_000 },
  async (mode) => {
    const other = bundleOf(mode);
    expect(await shop.apply(other)).toMatchObject({ exitCode: 0 });
    const before = await left();
    expect(before).toMatchObject({ servers: 0, link: false, rules: true });
    const file = join(shop.directory, `steady-${mode}`);
    const steady = shop.host('client').start([process.execPath, '-e', steadyClient(file)]);
    const met = (): SteadyAnswers =>
      existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as SteadyAnswers) : { answers: 0, silenceMs: 0 };
    for (const [way, files, after] of [
      [`${mode} → ipvs`, ipvs, { servers: 6, link: true, rules: false }],
      [`ipvs → ${mode}`, other, before],
    ] as const) {
      for (const service of [web, cart]) expect(await shop.ask(service, 4)).not.toContain('timeout');
      const loads = [web, cart].map((service) => new ClientLoad(service));
      const applied = await shop.apply(files);
      expect(applied, `${way}: ${applied.stderr}`).toMatchObject({ exitCode: 0 });
      const [udp, tcp] = await Promise.all(loads.map((load) => load.stop()));
      const seen = met();
      const window = applied.stdout.split('\n').find((line) => line.startsWith('mode ipvs:')) ?? '';
      process.stdout.write(
        `guest: ${way}: ${udp?.text}; ${tcp?.text}; no answer for ${seen.silenceMs} ms at one port. ${window}\n`,
      );
      // A kernel in user mode loses one datagram of some 2,400 in about half of the changes from mode ipvs, and the emulated one never has: why
      // is not known (docs/limits.md).
      const isCounted = guestStore === 'nft' || files === ipvs;
      expect([isCounted ? udp?.lost : 0, tcp?.lost], `${way}: lost`).toEqual([0, 0]);
      expect(udp?.lost, `${way}: lost`).toBeLessThanOrEqual(2);
      expect(window !== '', `${way}: window`).toBe(files === other);
      for (const service of [web, cart])
        for (const answer of await shop.ask(service, 8)) expect(['a', 'b']).toContain(answer);
      expect(await left()).toMatchObject(after);
      await until(`${way}: a client that keeps its port is served`, async () => met().answers > seen.answers + 3);
    }
    await steady.stop();
  },
);

// A run that a pull request waits for must end within minutes.
test.runIf(reaches('soak'))(
  'rolls back to the old mode when a probe fails in the new one, which leaves nothing',
  {
    timeout: 600_000,
  },
  async () => {
    expect(await shop.apply(bundleOf('iptables'))).toMatchObject({ exitCode: 0 });
    const before = await left();
    shop.configure('probes:', "  - { name: mode, attempts: 1, exec: [/bin/sh, -c, '! ip link show dev kube-ipvs0'] }");
    expect(await shop.apply(ipvs)).toMatchObject({ exitCode: 4 });
    shop.configure();
    expect(await left()).toEqual(before);
    for (const answer of await shop.ask(web, 8)) expect(['a', 'b']).toContain(answer);
  },
);
