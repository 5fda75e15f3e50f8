// @module-tag all
import { rmSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import type { StatusReport } from '../../packages/applier/src/observe/status/status.ts';
import { addPods } from './clients.ts';
import { needKernel } from './privileges.ts';
import { layoutPlanes, SluicedNode, until } from './sluiced-node.ts';

/** The real daemon with `countTraffic`: live connections and bytes by the kernel's tracked connections, with accounting and without. */

let node: SluicedNode;
beforeEach(needKernel);
beforeEach(async () => {
  node = await SluicedNode.make();
  await addPods(node);
});
afterEach(() => node.remove());

const clients = { '10.96.0.11': 5, '[fd00:96::a]': 2 } as const;
const bytesEach = 20_000;

/** Connections that stay, on each of which the endpoint sends some bytes; it prints the endpoint of each. */
const program = `
  const { createServer, connect } = require('node:net');
  createServer((socket) => socket.on('error', () => {}).write(Buffer.alloc(${bytesEach}, socket.localAddress.replace('::ffff:', '') + ' '))).listen(8080, '::', () => {
    for (const [host, count] of Object.entries(${JSON.stringify(clients)}))
      for (let n = 0; n < count; n++) {
        let got = 0;
        const socket = connect({ host: host.replace(/[[\\]]/g, ''), port: 80 }).on('data', (data) => {
          if (got === 0) console.log(data.toString().split(' ')[0]);
          got += data.length;
        });
      }
  });
`;

const put = (mode: 'iptables' | 'nftables', accounting: boolean): void => {
  rmSync(`${node.directory}/rendered`, { recursive: true, force: true });
  const sysctls = accounting ? { sysctls: ['net.netfilter.nf_conntrack_acct = 1'] } : {};
  const services = { 'shop/web': [1, 2], 'shop/cart': [3] };
  writeBundle(`${node.directory}/rendered`, sampleBundle({ services, families: ['ipv4', 'ipv6'], mode, ...sysctls }));
};

const status = async (): Promise<Partial<StatusReport>> =>
  JSON.parse((await node.get()) ?? '{}') as Partial<StatusReport>;

const accounting = (): Promise<string> => node.tool(['cat', '/proc/sys/net/netfilter/nf_conntrack_acct']);

type Service = NonNullable<StatusReport['services']>[number];

/** The first reading of shop/web that is as wanted. */
async function untilWeb(what: string, isWanted: (web: Service) => boolean): Promise<Service> {
  return until(
    what,
    async () => (await status()).services?.find((one) => one.service.startsWith('shop/web') && isWanted(one)),
    60_000,
  );
}

/** Holds connections. @returns how many each endpoint has */
async function connectAll(): Promise<{
  readonly live: Readonly<Record<string, number>>;
  readonly end: () => Promise<unknown>;
}> {
  const child = node.startProgram([process.execPath, '-e', program]);
  let text = '';
  child.stdout?.setEncoding('utf8').on('data', (part: string) => (text += part));
  const count = Object.values(clients).reduce((sum, one) => sum + one, 0);
  const answers = await until('each client has an answer', async () => {
    const lines = text.split('\n').filter((line) => line !== '');
    return lines.length === count && lines;
  });
  const live: Record<string, number> = {};
  for (const answer of answers) {
    const endpoint = answer.includes(':') ? `[${answer}]:8080` : `${answer}:8080`;
    live[endpoint] = (live[endpoint] ?? 0) + 1;
  }
  return { live, end: () => node.kill(child) };
}

test.each(layoutPlanes)(
  'live connections and bytes, $backend, layout $layout, mode $mode',
  {
    timeout: 240_000,
  },
  async ({ backend, layout, mode }) => {
    node.writeConfig(backend, `layout: ${layout}\nprobation: {seconds: 0}\ncountTraffic: true\n`);
    put(mode, true);
    node.start();
    await until('it serves', async () => (await status()).generation === 1, 30_000);
    expect(await accounting()).toBe('1');
    const { live, end } = await connectAll();
    const web = await untilWeb('all are counted', (one) => one.live === 7);
    expect(Object.fromEntries(web.endpoints.map((one) => [one.endpoint, one.live]))).toEqual(live);
    const sent = 7 * bytesEach;
    expect(web.bytes).toBeGreaterThan(sent);
    // Headers, acknowledgements and handshakes.
    expect(web.bytes).toBeLessThan(1.3 * sent);
    expect(web).toMatchObject({ connections: null, recent: null });
    const { stdout } = await node.sluiced('top', '--sort', 'bytes', '--once');
    expect(stdout).toMatch(/^shop\/web(?::\w+)? +- +- +7 +\d+\.\d KiB$/m);
    expect(await node.get('/metrics')).toMatch(/^sluice_service_live_connections\{service="shop\/web(:\w+)?"\} 7$/m);
    expect(await node.get('/metrics')).toMatch(/^sluice_service_bytes\{service="shop\/web(:\w+)?"\} \d{6}$/m);
    await end();
    await untilWeb('connections that ended are not live', (one) => one.live === 0 && (one.bytes ?? 0) > sent);
  },
);

test('without accounting there are no bytes, and cleanup restores the sysctl', { timeout: 240_000 }, async () => {
  node.writeConfig('nft', 'probation: {seconds: 0}\ncountTraffic: true\n');
  put('iptables', false);
  const daemon = node.start();
  await until('it serves', async () => (await status()).generation === 1, 30_000);
  await connectAll();
  expect(await untilWeb('all are counted', (one) => one.live === 7)).toMatchObject({ bytes: null });
  expect((await node.sluiced('top', '--once')).stdout).toContain('nf_conntrack_acct is 0');
  put('iptables', true);
  await until('a release sets the sysctl', async () => (await accounting()) === '1', 30_000);
  await node.kill(daemon, 'SIGTERM');
  expect((await node.sluiced('cleanup')).exitCode).toBe(0);
  expect(await accounting()).toBe('0');
});
