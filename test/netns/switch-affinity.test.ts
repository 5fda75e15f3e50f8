import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { SluicedNode, until } from './sluiced-node.ts';

/**
 * A Service with session affinity while programs are switched: which client belongs to which endpoint is kept in lists of the kernel
 * (`-m recent`), which last as long as some rule names them. A switch must not lose one.
 */

const releases = process.env['SLUICE_SOAK'] ? 100 : 25;

/** Twelve: that by chance all of them are on one of four endpoints happens once in four million runs. */
const clients = Array.from({ length: 12 }, (_, n) => `192.0.2.${n + 11}`);
const vip = '10.96.0.11';

/** Every endpoint says which address it was reached at; every client asks from its own address, and writes down who answered. */
const program = (directory: string): string => `
  const { createServer, get } = require('node:http');
  const { writeFileSync, renameSync } = require('node:fs');
  createServer((asked, to) => to.end(asked.socket.localAddress)).listen(8080, '0.0.0.0', () => {
    for (const client of ${JSON.stringify(clients)}) ask(client);
  });
  const met = {};
  const note = (client, what) => { met[client] ??= {}; met[client][what] = (met[client][what] ?? 0) + 1; };
  const ask = (client) => {
    const again = () => setTimeout(ask, 40, client);
    const request = get({ host: '${vip}', localAddress: client, agent: false, timeout: 3000 }, (from) => {
      let text = '';
      from.on('data', (part) => { text += part; });
      from.on('end', () => { note(client, text); again(); });
    });
    request.on('timeout', () => request.destroy(new Error('no answer')));
    request.on('error', (error) => { note(client, error.code ?? error.message); again(); });
  };
  setInterval(() => { writeFileSync('${directory}/met.tmp', JSON.stringify(met)); renameSync('${directory}/met.tmp', '${directory}/met'); }, 100);
`;

/** A Service's file as the renderer writes it with session affinity: who was here goes where it was, before anything is left to chance. */
function withAffinity(text: string): string {
  const lines = text.split('\n');
  const ways = lines.filter((line) => line.startsWith('-A KUBE-SVC-'));
  const again = ways.map((line) => {
    const endpoint = / -j (\S+)$/.exec(line)?.[1] ?? '';
    const recent = `-m recent --name ${endpoint} --rcheck --seconds 600 --reap -j ${endpoint}`;
    return line.replace(/(?<="[^"]*") .*$/, ` ${recent}`);
  });
  const remember = (line: string): string =>
    line.replace(/^-A (KUBE-SEP-\S+) (.*?") /, '-A $1 $2 -m recent --name $1 --set ');
  const first = lines.findIndex((line) => line.startsWith('-A KUBE-SVC-'));
  return [...lines.slice(0, first), ...again, ...lines.slice(first)].map(remember).join('\n');
}

let node: SluicedNode;
beforeEach(needKernel);
beforeEach(async () => {
  node = await SluicedNode.make();
});
afterEach(() => node.remove());

/** Endpoint n has the address 10.244.0.(n + 1). */
function put(web: readonly number[], other: readonly number[]): void {
  const files = sampleBundle({ services: { 'shop/web': web, 'shop/cart': other } });
  const path = 'profiles/default/services/shop/web.iptables';
  files.set(path, withAffinity(files.get(path) ?? ''));
  writeBundle(`${node.directory}/rendered`, files);
}

const met = (): Record<string, Record<string, number>> =>
  JSON.parse(readFileSync(`${node.directory}/met`, 'utf8')) as Record<string, Record<string, number>>;

describe.each(['nft', 'legacy'] as const)('session affinity under %s', { timeout: 600_000 }, (backend) => {
  beforeEach((context) => needBackend(context, backend));

  test(`every client stays on its endpoint over ${releases} releases, also when others come and go`, async () => {
    const { directory } = node;
    const endpoints = [1, 2, 3, 4];
    const addresses = [...clients, ...[...endpoints, 5].map((n) => `10.244.0.${n + 1}`)];
    const setUp = addresses.map((one) => `ip addr add ${one}/32 dev lo`).join(' && ');
    await node.tool(['sh', '-c', `${setUp} && ip route add 10.96.0.0/12 dev lo`]);
    node.writeConfig(backend);
    put(endpoints, [20, 21]);
    expect(await node.apply()).toMatchObject({ exitCode: 0 });
    writeFileSync(`${directory}/clients.cjs`, program(directory));
    node.startProgram([process.execPath, `${directory}/clients.cjs`]);
    await until(
      'every client is served',
      async () => existsSync(`${directory}/met`) && clients.every((one) => met()[one]),
    );
    for (let count = 1; count <= releases; count++) {
      // Two endpoints that are replaced at once are a release, one would be an update of endpoints.
      const first = 20 + 2 * (count % 50);
      put(count % 5 === 0 ? [...endpoints, 5] : endpoints, [first, first + 1]);
      expect(await node.apply()).toMatchObject({ exitCode: 0 });
      expect(node.journal()?.current, 'a release of its own').toMatchObject({ number: count + 1, revision: 0 });
    }
    const seen = met();
    const places = clients.map((client) => Object.keys(seen[client] ?? {}));
    expect(places.filter((answers) => answers.length !== 1)).toEqual([]);
    expect(new Set(places.flat()).size, 'clients are on several endpoints').toBeGreaterThan(1);
    expect(places.flat().filter((answer) => !/^10\.244\.0\.[2-5]$/.test(answer))).toEqual([]);
    const answers = Object.values(seen).flatMap((one) => Object.values(one));
    console.log(`${backend}: ${answers.reduce((sum, one) => sum + one, 0)} answers over ${releases} releases`);
  });
});
