// @module-tag quick
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { ServiceConnections } from '../../apply/counts/most.ts';
import { chosen, printTable } from './table.ts';

const figures = (connections: number, recent: number) => ({
  connections,
  recent,
  live: connections / 4,
  bytes: connections * 1024,
});
import { top } from './top.ts';

const service = (name: string, connections: number, recent: number, far = false): ServiceConnections => ({
  service: name,
  ...figures(connections, recent),
  endpoints: [
    {
      endpoint: '10.244.0.1:8080',
      ...figures(connections * 0.75, recent),
      share: far ? 0.9 : null,
      expectedShare: far ? 0.5 : null,
    },
    {
      endpoint: '10.244.0.2:8080',
      ...figures(connections * 0.25, 0),
      share: far ? 0.1 : null,
      expectedShare: far ? 0.5 : null,
    },
  ],
});
const services = [service('shop/web:http', 400, 0), service('shop/cart', 40, 25), service('shop/web:tls', 40, 5, true)];
const imbalances = [{ service: 'shop/web:tls', endpoint: '10.244.0.2:8080', connections: 10, expected: 50 }];

test.each([
  [{ sort: 'connections' }, ['shop/web:http', 'shop/cart', 'shop/web:tls']],
  [{ sort: 'rate' }, ['shop/cart', 'shop/web:tls', 'shop/web:http']],
  [{ sort: 'imbalance', number: 2 }, ['shop/web:tls', 'shop/cart']],
  [{ sort: 'name', number: 2 }, ['shop/cart', 'shop/web:http']],
  [{ sort: 'live', number: 1 }, ['shop/web:http']],
  [{ sort: 'bytes', number: 1 }, ['shop/web:http']],
  [{ sort: 'rate', service: 'shop/web' }, ['shop/web:tls', 'shop/web:http']],
  [{ sort: 'rate', service: 'shop/we' }, []],
] as const)('shows of %j', (choice, expected) => {
  expect(chosen(services, choice).map((one) => one.service)).toEqual(expected);
});

const traffic = { seconds: 60.2, hasBytes: true };

test('prints rates per second, live connections, bytes and shares, and no rates after the first reading', () => {
  expect(printTable({ node: 'node-a', countedSeconds: 10, traffic, services: services.slice(1), imbalances })).toBe(
    `node-a: new connections, rates over the last 10 s; live connections, read every 60 s

SERVICE            CONNECTIONS  PER SECOND  LIVE     BYTES   SHARE  EXPECTED
shop/cart                   40         2.5    10  40.0 KiB
  10.244.0.1:8080           30         2.5   7.5  30.0 KiB  75.0 %         -
  10.244.0.2:8080           10         0.0   2.5  10.0 KiB  25.0 %         -
shop/web:tls                40         0.5    10  40.0 KiB
  10.244.0.1:8080           30         0.5   7.5  30.0 KiB  90.0 %    50.0 %
  10.244.0.2:8080           10         0.0   2.5  10.0 KiB  10.0 %    50.0 %  far from its share
`,
  );
  const one = services.slice(1, 2);
  expect(printTable({ node: 'node-a', countedSeconds: null, traffic: null, services: one, imbalances })).toMatch(
    /^node-a: new connections, the first reading\n[^]*\nshop\/cart +40 +- +10 +40\.0 KiB\n/,
  );
});

test('says that the kernel counts no bytes, and prints what nothing reads as a dash', () => {
  const none = { connections: null, recent: null, live: 3, bytes: null };
  const unread = {
    service: 'shop/web',
    ...none,
    endpoints: [{ endpoint: '10.244.0.1:8080', ...none, share: null, expectedShare: null }],
  };
  const text = printTable({
    node: 'node-a',
    countedSeconds: null,
    traffic: { seconds: null, hasBytes: false },
    services: [unread],
    imbalances: [],
  });
  expect(text).toContain('bytes are not counted: net.netfilter.nf_conntrack_acct is 0');
  expect(text).toMatch(/^shop\/web +- +- +3 +-$/m);
  expect(text).toMatch(/^ {2}10\.244\.0\.1:8080 +- +- +3 +- +- +-$/m);
});

/** Runs the command beside a daemon that answers with this status. */
async function ran(status: object | undefined, options: Partial<Parameters<typeof top>[0]>, pages = 0, rows = 5) {
  const directory = mkdtempSync(join(tmpdir(), 'sluiced-top-'));
  const server = createServer((_, response) => response.end(JSON.stringify(status)));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const stop = (): void => void server.close();
  if (status === undefined) stop();
  onTestFinished(() => {
    stop();
    rmSync(directory, { recursive: true });
  });
  const config = join(directory, 'sluiced.yaml');
  writeFileSync(
    config,
    `apiVersion: sluice.dev/v1alpha1\nkind: SluicedConfig\nnode: node-a\nstate: ${directory}\nlisten: 127.0.0.1:${port}\n`,
  );
  let [out, err] = ['', ''];
  let left = pages;
  const shown: string[] = [];
  const screen = { rows, show: (page: string) => void shown.push(page), pause: async () => --left > 0 };
  const exitCode = await top(
    { sort: 'connections', config, ...options },
    { out: (text) => void (out += text), err: (text) => void (err += text), ...(pages > 0 ? { screen } : {}) },
  );
  return { exitCode, out, err, shown };
}

const status = { node: 'node-a', countedSeconds: 10, traffic, services, imbalances };

test('prints one document with -o json, also on a terminal', async () => {
  const { exitCode, out } = await ran(status, { output: 'json', number: 1 }, 3);
  expect(exitCode).toBe(0);
  expect(JSON.parse(out)).toMatchObject({
    kind: 'Connections',
    node: 'node-a',
    services: [services[0]],
    imbalances: [],
  });
});

test('shows a page again until Ctrl-C, no longer than the terminal', async () => {
  const { exitCode, shown } = await ran(status, {}, 2);
  expect(exitCode).toBe(0);
  expect(shown).toHaveLength(2);
  expect(shown[1]?.split('\n')).toHaveLength(5);
  expect((await ran(status, {}, 1, 0)).shown.join(''), 'the height is not known').toContain('shop/cart');
});

test('says so where a Service has no connections, nothing is counted, or no daemon runs', async () => {
  expect(await ran(status, { service: 'shop/none' })).toMatchObject({
    exitCode: 1,
    err: expect.stringContaining('shop/none has no counted connections') as string,
  });
  await expect(ran({ ...status, services: null }, {})).rejects.toMatchObject({
    exitCode: 2,
    problems: [{ hint: expect.stringContaining('countConnections: true') as string }],
  });
  await expect(ran(undefined, {})).rejects.toMatchObject({ exitCode: 2 });
});

test('no text of the program at the status port steers the terminal', () => {
  const bad = '\u001B[2J';
  const { endpoints, ...rest } = service(`shop/${bad}`, 4, 1);
  const text = printTable({
    node: `node${bad}`,
    countedSeconds: 10,
    traffic,
    imbalances: [],
    services: [{ ...rest, endpoints: endpoints.map((one) => ({ ...one, endpoint: bad })) }],
  });
  expect(text).not.toContain('\u001B');
  expect(text).toContain('shop/?[2J');
});
