// @module-tag test
import { appendFileSync, renameSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { sampleBundle, type SampleServices, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { type DataPlane, plainPlanes, until } from './sluiced-node.ts';

/** A bundle suddenly lacks most Services, and `sluiced run` has no probe that would tell. */

withNode();

const names = Array.from({ length: 20 }, (_, n) => `shop/s${n}`);

/** @param isServed false: the other Services are there, without endpoints */
function publish({ mode }: DataPlane, count: number, isServed = true, more: SampleServices = {}): void {
  const services: SampleServices = Object.fromEntries(
    names.map((name, n) => [name, n < count ? [n + 10] : isServed ? undefined : []]),
  );
  const [place, next] = [`${node.directory}/rendered`, `${node.directory}/next`];
  writeBundle(next, sampleBundle({ services: { ...services, ...more }, families: ['ipv4', 'ipv6'], mode }));
  rmSync(place, { recursive: true, force: true });
  renameSync(next, place);
}

const alarms = async (): Promise<Readonly<Record<string, string>>> =>
  (JSON.parse((await node.get()) ?? '{"alarms":{}}') as { alarms: Readonly<Record<string, string>> }).alarms;
const number = (): number | undefined => (node.journal()?.open === null ? node.journal()?.current?.number : undefined);

const planes = oneInTurn(plainPlanes, 'removal');

describe.each(planes)('on $backend, mode $mode', { timeout: 120_000 }, ({ backend, mode }) => {
  const plane = { backend, mode };
  beforeEach((context) => needBackend(context, backend));

  async function start(holdSeconds: number): Promise<string> {
    node.writeConfig(backend);
    appendFileSync(`${node.directory}/sluiced.yaml`, `removals: { holdSeconds: ${holdSeconds} }\n`);
    publish(plane, names.length);
    node.start();
    await until('the bundle is applied', async () => number() === 1);
    return node.forwarding(plane);
  }

  test.each([
    ['without most Services', true],
    ['in which most Services have no endpoints', false],
  ])('the node keeps its rules and its health beside a bundle %s', async (_title, isServed) => {
    const before = await start(600);
    publish(plane, 3, isServed);
    await until('the alarm is raised', async () => (await alarms())['REMOVAL_HELD']);
    // Some scans later.
    await sleep(3_000);
    expect(await node.forwarding(plane)).toBe(before);
    expect(await node.get('/healthz')).toContain('healthy');
    expect((await alarms())['REMOVAL_HELD']).toMatch(/takes away 17 of 20 Service addresses/);
    publish(plane, names.length);
    await until('the alarm is over', async () => (await alarms())['REMOVAL_HELD'] === undefined);
    expect(await node.forwarding(plane)).toBe(before);
    publish(plane, 3, isServed);
    await until('it is raised again', async () => (await alarms())['REMOVAL_HELD']);
  });

  test('the node serves a new Service of the bundle, beside those that it keeps', async () => {
    await start(600);
    const before = await node.endpoints(plane);
    publish(plane, 3, true, { 'shop/new': [90] });
    await until('the new Service is in', async () => (await node.endpoints(plane)).length > before.length);
    await until('the alarm is raised', async () => (await alarms())['REMOVAL_HELD']);
    expect((await node.endpoints(plane)).toSorted()).toEqual([...before, '10.244.0.91:8080'].toSorted());
    expect(await node.get('/healthz')).toContain('healthy');
  });

  test('the node takes it once it has stood', async () => {
    const before = await start(5);
    publish(plane, 3);
    await until('the alarm is raised', async () => (await alarms())['REMOVAL_HELD']);
    expect(await node.forwarding(plane)).toBe(before);
    await until('it is applied', async () => number() === 2, 30_000);
    expect(await alarms()).not.toHaveProperty('REMOVAL_HELD');
    expect(await node.forwarding(plane)).not.toBe(before);
  });
});
