// @module-tag all
import { isDeepStrictEqual } from 'node:util';
import { rmSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { addPods } from './clients.ts';
import { needKernel } from './privileges.ts';
import { kinds, SluicedNode, until, web } from './sluiced-node.ts';

/** The real daemon with `countConnections`, in mode iptables: the counters of rules, over changes that make the rules again. */

let node: SluicedNode;
beforeEach(needKernel);
beforeEach(async () => {
  node = await SluicedNode.make();
  await addPods(node);
});
afterEach(() => node.remove());

/** Connections one after the other, by the endpoint that answered. */
const program = `
  const { createServer, get } = require('node:http');
  const server = createServer((asked, to) => to.end(asked.socket.localAddress.replace('::ffff:', '')));
  const met = {};
  const ask = (left) => {
    if (left === 0) { console.log(JSON.stringify(met)); process.exit(0); }
    get('http://10.96.0.11/', { agent: false }, (from) => {
      let text = '';
      from.on('data', (part) => { text += part; });
      from.on('end', () => { met[text] = (met[text] ?? 0) + 1; ask(left - 1); });
    });
  };
  server.listen(8080, '::', () => ask(40));
`;

const connect = async (): Promise<Readonly<Record<string, number>>> =>
  JSON.parse(await node.tool([process.execPath, '-e', program])) as Record<string, number>;

interface Told {
  readonly generation: number | null;
  readonly services: readonly {
    readonly service: string;
    readonly endpoints: readonly {
      readonly endpoint: string;
      readonly connections: number;
      readonly expectedShare: number | null;
    }[];
  }[];
  readonly imbalances: readonly unknown[] | null;
}

/** What the daemon has counted of shop/web, by address of the endpoint. */
async function counted(): Promise<Readonly<Record<string, number>>> {
  const told = (JSON.parse((await node.get()) ?? '{}') as Partial<Told>).services ?? [];
  const own = told.find(({ service }) => service.startsWith('shop/web'))?.endpoints ?? [];
  return Object.fromEntries(own.map(({ endpoint, connections }) => [endpoint.replace(/:8080$/, ''), connections]));
}

function added(
  some: Readonly<Record<string, number>>,
  more: Readonly<Record<string, number>>,
): Readonly<Record<string, number>> {
  const sum = { ...some };
  for (const [endpoint, count] of Object.entries(more)) sum[endpoint] = (sum[endpoint] ?? 0) + count;
  return sum;
}

async function expectCounted(expected: Readonly<Record<string, number>>): Promise<void> {
  let last: unknown;
  const isEqual = async (): Promise<boolean> => {
    last = await counted();
    return isDeepStrictEqual(last, expected);
  };
  await until('each connection is counted', isEqual, 40_000).catch(() => undefined);
  expect(last).toEqual(expected);
}

function put(...endpoints: readonly number[]): void {
  rmSync(`${node.directory}/rendered`, { recursive: true, force: true });
  writeBundle(`${node.directory}/rendered`, web(...endpoints));
}

/** Rules may be in the kernel before packets meet them. */
const isConfirmed = async (): Promise<boolean> =>
  ((JSON.parse((await node.get()) ?? '{}') as Partial<Told>).generation ?? null) !== null;

const leadsTo = async (address: string): Promise<boolean> =>
  (await node.tool(['sh', '-c', 'iptables-save -t nat; iptables-legacy-save -t nat 2>/dev/null || true'])).includes(
    address,
  );

test.each(kinds)(
  '$backend, layout $layout: kept when an endpoint comes and another one goes',
  { timeout: 200_000 },
  async ({ backend, layout }) => {
    node.writeConfig(backend, `layout: ${layout}\nprobation: {seconds: 0}\ncountConnections: true\n`);
    put(1, 2);
    node.start();
    await until('it serves', isConfirmed, 30_000);
    const first = await connect();
    expect(Object.values(first).reduce((a, b) => a + b, 0)).toBe(40);
    await expectCounted(first);
    const again = await connect();
    await expectCounted(added(first, again));
    const { services = [], imbalances } = JSON.parse((await node.get()) ?? '{}') as Partial<Told>;
    const endpoints = services.find(({ service }) => service.startsWith('shop/web'))?.endpoints ?? [];
    expect(endpoints.map(({ expectedShare }) => expectedShare)).toEqual([0.5, 0.5]);
    expect(imbalances).toEqual([]);
    const { stdout, exitCode } = await node.sluiced('top', '--service', 'shop/web');
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^ {2}10\.244\.0\.2:8080 +\d+ +[\d.]+ +- +- +[\d.]+ % +50\.0 %$/m);
    put(2, 3);
    await until(
      'endpoints change',
      async () => (await leadsTo('10.244.0.4:8080')) && !(await leadsTo('10.244.0.2:8080')),
      30_000,
    );
    const second = await connect();
    await expectCounted(added(added(first, again), second));
    expect(await node.get('/metrics')).toMatch(/^sluice_service_connections\{service="shop\/web(:\w+)?"\} 120$/m);
  },
);

test('without countConnections nothing is read', { timeout: 100_000 }, async () => {
  node.writeConfig('nft', 'probation: {seconds: 0}\n');
  put(1);
  node.start();
  await until('it serves', isConfirmed, 30_000);
  await connect();
  await new Promise((resolve) => setTimeout(resolve, 12_000));
  expect(JSON.parse((await node.get()) ?? '{}')).toMatchObject({ services: null });
});
