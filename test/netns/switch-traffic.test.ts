// @module-tag test
import { readFileSync, writeFileSync } from 'node:fs';
import { atTier } from '@sluice/testing';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { SluicedNode, until } from './sluiced-node.ts';

/** New connections all the time while programs are switched: none is lost or misdirected, of changed and of unchanged Services. */

const applies = atTier({ quick: 10, all: 50, soak: 1_000 });

/** Every pod answers with its own address; four clients open a connection as soon as the last one has ended, and record the answers. */
const program = (file: string): string => `
  const { createServer, get } = require('node:http');
  const { writeFileSync, renameSync } = require('node:fs');
  createServer((asked, to) => to.end(asked.socket.localAddress.replace('::ffff:', ''))).listen(8080, '::');
  const met = {};
  const wanted = {
    '10.96.0.11': ['10.244.0.2', '10.244.0.3'], '10.96.0.12': ['10.244.0.4'],
    '[fd00:96::a]': ['fd00:10::1', 'fd00:10::2'], '[fd00:96::b]': ['fd00:10::3'],
  };
  const note = (vip, what) => { met[vip] ??= {}; met[vip][what] = (met[vip][what] ?? 0) + 1; };
  const ask = (vip) => {
    const again = () => setTimeout(ask, 2, vip);
    const request = get('http://' + vip + '/', { agent: false, timeout: 3000 }, (from) => {
      let text = '';
      from.on('data', (part) => { text += part; });
      from.on('end', () => { note(vip, wanted[vip].includes(text) ? 'served' : 'misled to ' + text); again(); });
    });
    request.on('timeout', () => request.destroy(new Error('no answer')));
    request.on('error', (error) => { note(vip, error.code ?? error.message); again(); });
  };
  process.on('SIGUSR2', () => { for (const vip of Object.keys(wanted)) ask(vip); });
  setInterval(() => { writeFileSync('${file}.tmp', JSON.stringify(met)); renameSync('${file}.tmp', '${file}'); }, 100);
`;

let node: SluicedNode;
beforeEach(needKernel);
beforeEach(async () => {
  node = await SluicedNode.make();
});
afterEach(() => node.remove());

/** Endpoint n has the addresses 10.244.0.(n + 1) and fd00:10::n; Services have 10.96.0.11 and fd00:96::a, 10.96.0.12 and fd00:96::b. */
function put(web: readonly number[], mode: 'iptables' | 'nftables'): void {
  const services = { 'shop/web': web, 'shop/cart': [3] };
  writeBundle(`${node.directory}/rendered`, sampleBundle({ services, families: ['ipv4', 'ipv6'], mode }));
}

/** A number that grows with each finished change: endpoint updates are revisions of a generation. */
const confirmed = (): number => {
  const { open, current } = node.journal() ?? {};
  return open === null && current ? current.number * 1e6 + (current.revision ?? 0) : 0;
};

const ways = [
  { backend: 'nft', mode: 'iptables' },
  { backend: 'legacy', mode: 'iptables' },
  { backend: 'nft', mode: 'nftables' },
] as const;

describe.each(ways)('traffic under $backend, mode $mode', { timeout: 1_800_000 }, ({ backend, mode }) => {
  beforeEach((context) => needBackend(context, backend));

  test(`${applies} changes lose and misdirect no connection`, async () => {
    const { directory } = node;
    const addresses = [1, 2, 3].flatMap((n) => [`10.244.0.${n + 1}/32 dev lo`, `fd00:10::${n}/128 dev lo nodad`]);
    const setUp = [
      ...addresses.map((one) => `ip addr add ${one}`),
      'ip route add 10.96.0.0/12 dev lo',
      'ip addr add fd00:1::1/64 dev lo nodad',
      'ip -6 route add fd00:96::/112 dev lo',
    ];
    await node.tool(['sh', '-c', setUp.join(' && ')]);
    node.writeConfig(backend);
    put([1], mode);
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    writeFileSync(`${directory}/clients.cjs`, program(`${directory}/met`));
    const clients = node.startProgram([process.execPath, `${directory}/clients.cjs`]);
    const met = (): Record<string, Record<string, number>> =>
      JSON.parse(readFileSync(`${directory}/met`, 'utf8')) as Record<string, Record<string, number>>;
    await until('the clients run', async () => {
      try {
        return met();
      } catch {
        return undefined;
      }
    });
    clients.kill('SIGUSR2');
    node.start();
    for (let count = 0; count < applies; count++) {
      const before = await until('the previous change is finished', async () => confirmed());
      put(count % 2 === 0 ? [2] : [1, 2].slice(0, 1 + (count % 3)), mode);
      await until(`change ${count} is confirmed`, async () => confirmed() > before);
    }
    const seen = met();
    expect(Object.keys(seen).toSorted()).toEqual(['10.96.0.11', '10.96.0.12', '[fd00:96::a]', '[fd00:96::b]']);
    const others = Object.entries(seen).map(([vip, answers]) => [vip, Object.keys(answers)]);
    expect(others).toEqual(Object.keys(seen).map((vip) => [vip, ['served']]));
    const total = Object.values(seen).reduce((sum, { served = 0 }) => sum + served, 0);
    console.log(`${backend}, mode ${mode}: ${total} connections over ${applies} changes`);
  });
});
