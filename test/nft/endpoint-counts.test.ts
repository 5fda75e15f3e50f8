// @module-tag all
import { rmSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import { makeRelease } from '@sluice/bundle';
import { printNftTable } from '@sluice/netfilter';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import type { StatusReport } from '../../packages/applier/src/observe/status/status.ts';
import { addPods } from '../netns/clients.ts';
import { needKernel } from '../netns/privileges.ts';
import { SluicedNode, until, webIn } from '../netns/sluiced-node.ts';

/** The real daemon with `endpointCounters`: each connection is counted once, whatever becomes of the elements that count. */

let node: SluicedNode;
const opened = new Map<string, number>();
beforeEach(needKernel);
beforeEach(async () => {
  opened.clear();
  node = await SluicedNode.make();
  await addPods(node);
});
afterEach(() => node.remove());

const options = { detector: 'address', masqueradeAll: false } as const;

/** The bundle of a profile that counts, or does not. */
function filesOf(endpointCounters: boolean, ...endpoints: readonly number[]): Map<string, string> {
  const first = printNftTable({ ...options, endpointCounters });
  return new Map(webIn('nftables', ...endpoints)).set('profiles/default/base/first.nft', first);
}

function put(list: 'n${count}' | 's${count}t600', ...endpoints: readonly number[]): void {
  const files = filesOf(true, ...endpoints);
  for (const [path, text] of files)
    if (path.includes('/services/')) files.set(path, text.replaceAll('goto n${count}', `goto ${list}`));
  rmSync(`${node.directory}/rendered`, { recursive: true, force: true });
  writeBundle(`${node.directory}/rendered`, files);
}

test('a release requires endpoint-counters only where a profile counts', () => {
  const requires = (counts: boolean): unknown => makeRelease(filesOf(counts, 1), { serial: 1, source: 'c'.repeat(40) });
  expect(requires(true)).toMatchObject({ requires: ['endpoint-counters', 'mode-nftables'] });
  expect(requires(false)).toMatchObject({ requires: ['mode-nftables'] });
});

/** Connections one after the other, by the endpoint that answered. */
const program = `
  const { createServer, get } = require('node:http');
  const server = createServer((asked, to) => to.end(asked.socket.localAddress.replace('::ffff:', '')));
  const met = {};
  const ask = (left) => {
    if (left === 0) { console.log(JSON.stringify(met)); process.exit(0); }
    get('http://' + process.argv[1] + '/', { agent: false }, (from) => {
      let text = '';
      from.on('data', (part) => { text += part; });
      from.on('end', () => { met[text] = (met[text] ?? 0) + 1; ask(left - 1); });
    });
  };
  server.listen(8080, '::', () => ask(40));
`;

async function connect(vip = '10.96.0.11'): Promise<void> {
  const answers = JSON.parse(await node.tool([process.execPath, '-e', program, vip])) as Record<string, number>;
  for (const [endpoint, count] of Object.entries(answers)) opened.set(endpoint, (opened.get(endpoint) ?? 0) + count);
}

interface Told {
  readonly connections: readonly {
    readonly frontend: string;
    readonly endpoints: readonly { readonly endpoint: string; readonly connections: number }[];
  }[];
}

/** What the daemon has counted, by endpoint. */
async function counted(frontend = '10.96.0.11 . tcp . 80'): Promise<Readonly<Record<string, number>>> {
  const text = await node.get();
  const told = text === undefined ? [] : ((JSON.parse(text) as Partial<Told>).connections ?? []);
  const own = told.find((one) => one.frontend === frontend)?.endpoints ?? [];
  const some = own.filter(({ connections }) => connections > 0);
  return Object.fromEntries(some.map(({ endpoint, connections }) => [endpoint.replace(/ \. 8080$/, ''), connections]));
}

/** The same by Service, as `sluiced top` reads it. */
async function countedOfService(): Promise<Readonly<Record<string, number>>> {
  const { services } = JSON.parse((await node.get()) ?? '{}') as Pick<StatusReport, 'services'>;
  const own = services?.find(({ service }) => service === 'shop/web')?.endpoints ?? [];
  return Object.fromEntries(
    own.map(({ endpoint, connections }) => [endpoint.replace(/:8080$/, ''), connections ?? NaN]),
  );
}

/** The parts of connections that the endpoints of the Service should have, each value once. */
async function expectedShares(): Promise<readonly (number | null)[]> {
  const { services, imbalances } = JSON.parse((await node.get()) ?? '{}') as StatusReport;
  expect(imbalances).toEqual([]);
  const own = services?.find(({ service }) => service === 'shop/web')?.endpoints ?? [];
  return [...new Set(own.map(({ expectedShare }) => expectedShare))];
}

/** Between two readings is 250 times their processor time (`countsPauseFactor`), which other work on the machine multiplies. */
const readMsMax = 180_000;

/** Waits until exactly the connections are counted that were opened, each by its endpoint. */
async function expectEqual(): Promise<void> {
  const expected = Object.fromEntries(opened);
  let last: unknown;
  const isEqual = async (): Promise<boolean> => {
    last = await counted();
    return isDeepStrictEqual(last, expected);
  };
  await until('each connection is counted', isEqual, readMsMax).catch(() => undefined);
  expect(last).toEqual(expected);
  expect(await countedOfService()).toEqual(expected);
}

/** Whether packets to shop/web meet a list of this length. */
async function meets(count: number): Promise<boolean> {
  const verdicts = await node.tool(['sh', '-c', 'nft -n list map inet sluice svc4 2>/dev/null || true']);
  return new RegExp(`10\\.96\\.0\\.11 \\. 6 \\. 80 : goto [ns]${count}[^0-9]`).test(verdicts);
}

const serves = (text: string): Promise<boolean> => node.frontends().then((all) => all.includes(text));

test.each(['n${count}', 's${count}t600'] as const)(
  'connections to a list %s are counted over changes, moves of slots, a commit, a rollback',
  { timeout: 900_000 },
  async (list) => {
    node.writeConfig('nft', 'probation: {seconds: 0}\n');
    put(list, 1, 2);
    node.start();
    await until('it serves', () => meets(2), 30_000);
    await connect();
    await expectEqual();
    await connect();
    await expectEqual();
    expect(await expectedShares()).toEqual(list === 'n${count}' ? [0.5] : [null]);
    put(list, 1, 2, 3);
    await until('one comes', () => meets(3), 30_000);
    await connect();
    put(list, 2, 3);
    await until('one goes', () => meets(2), 30_000);
    await connect();
    await expectEqual();
    put(list, 1);
    await until('a release comes', () => meets(1), 30_000);
    await connect();
    expect(await node.sluiced('rollback', '1', '--yes', '--endpoints', 'old')).toMatchObject({ exitCode: 0 });
    expect(await meets(2)).toBe(true);
    await connect();
    await expectEqual();
    const metrics = (await node.get('/metrics')) ?? '';
    const sum = [...opened.values()].reduce((a, b) => a + b, 0);
    expect(sum).toBe(240);
    expect(metrics).toContain(`sluice_frontend_connections{frontend="10.96.0.11 . tcp . 80"} ${sum}\n`);
  },
);

test('connections of a release on probation are counted, also when it is cancelled', { timeout: 400_000 }, async () => {
  node.writeConfig('nft');
  put('n${count}', 1, 2);
  expect(await node.apply()).toMatchObject({ exitCode: 0 });
  node.writeConfig('nft', 'probation: {seconds: 600}\nprobes: [{name: good, exec: [/bin/true]}]\n');
  node.start();
  await until('the daemon runs', async () => (await node.get()) !== undefined, 30_000);
  await connect();
  put('n${count}', 3);
  await until('it is on probation', () => serves('on probation'), 30_000);
  await connect();
  expect([...opened.keys()]).toContain('10.244.0.4');
  expect(await node.sluiced('cancel')).toMatchObject({ exitCode: 0 });
  await until('it is rolled back', async () => !(await serves('on probation')), 30_000);
  await connect();
  await expectEqual();
});

test('a profile without counters counts nothing', async () => {
  node.writeConfig('nft');
  writeBundle(`${node.directory}/rendered`, webIn('nftables', 1, 2));
  node.start();
  await until('it serves', () => serves('10.244.0.2 . 8080'), 30_000);
  await connect();
  expect(JSON.parse((await node.get()) ?? '')).toMatchObject({ connections: null });
  expect(await node.tool(['nft', 'list', 'map', 'inet', 'sluice', 'tcp4'])).not.toContain('counter');
});
