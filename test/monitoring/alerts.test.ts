// @module-tag all
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { needBackend, needKernel } from '../netns/privileges.ts';
import { SluicedNode, until } from '../netns/sluiced-node.ts';
import { dashboardQueries } from './dashboards.ts';
import { confirmed, connect, counting, type Fault, faults, publish, saysOf } from './faults.ts';
import { commandOf } from './pages.ts';
import { needPrometheus, Prometheus } from './prometheus.ts';

/** Debian's Prometheus beside a real `sluiced`, with the alert rules as they are shipped, but for their delays. */

let node: SluicedNode;
beforeEach(needKernel);
beforeEach(async (context) => {
  needBackend(context, 'nft');
  node = await SluicedNode.make();
});
afterEach(() => node.remove());

const scrape = (program: string): Prometheus =>
  Prometheus.start(
    program,
    {
      directory: node.directory,
      run: (command) => node.tool(command),
      start: (command) => node.startProgram(command),
    },
    { sluiced: '127.0.0.1:10276' },
  );

/** A healthy node with its Prometheus, before the fault. */
async function start({ prepare = confirmed }: Pick<Fault, 'prepare'>, program: string) {
  const { before = '', isEmpty } = await prepare(node);
  const daemon = node.start(before);
  const isThere = async (): Promise<boolean> =>
    ((await node.get('/metrics')) ?? '').includes(isEmpty ? 'sluice_generation' : 'sluice_generation 1');
  await until('the daemon has its generation', isThere, 30_000);
  if (!isEmpty) await until('it is healthy', async () => (await node.get('/healthz'))?.includes('healthy'), 30_000);
  const prometheus = scrape(program);
  await until('it is scraped', () => prometheus.isReady(), 30_000);
  return { daemon, prometheus };
}

describe('an alert fires in its fault, and no other one does', () => {
  test.for(faults.map((fault) => [fault.alert, fault.title, fault] as const))(
    '%s: %s',
    { timeout: 240_000 },
    async ([alert, , fault], context) => {
      const program = needPrometheus(context, 'prometheus');
      const { daemon, prometheus } = await start(fault, program);
      await fault.make(node, daemon);
      await until(`${alert} fires`, async () => (await prometheus.fired()).includes(alert), 90_000);
      // Longer than any alert waits here.
      await sleep(5_000);
      expect(await prometheus.fired()).toEqual([alert]);
      // A probe of the address has no verdict at first.
      await expect.poll(() => saysOf(node), { timeout: 20_000 }).toEqual(fault.says);
      const command = commandOf(alert)!;
      expect(command.slice(0, 8)).toBe('sluiced ');
      const { stdout } = await node.sluiced(...command.split(' ').slice(1));
      expect(stdout).not.toBe('');
    },
  );
});

test('a healthy node raises no alert, and every query of the dashboards returns data', {
  timeout: 120_000,
}, async (context) => {
  const { prometheus } = await start({ prepare: counting }, needPrometheus(context, 'prometheus'));
  await connect(node);
  publish(node, 2, 3);
  await until('a release is confirmed', async () => node.journal()?.current?.number === 2, 30_000);
  await sleep(8_000);
  expect(await prometheus.fired()).toEqual([]);
  const empty: string[] = [];
  for (const { dashboard, panel, expr } of dashboardQueries())
    if ((await prometheus.query(expr)).length === 0) empty.push(`${dashboard}: ${panel}: ${expr}`);
  expect(empty).toEqual([]);
});
