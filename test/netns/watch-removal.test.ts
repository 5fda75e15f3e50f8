// @module-tag test
import { beforeEach, describe, expect, test } from 'vitest';
import { needBackend } from './privileges.ts';
import { until } from './sluiced-node.ts';
import * as scene from './watched-node.ts';
import { api, node, pod } from './watched-node.ts';

/** Removals all the way: an API server, `sluice watch`, and the kernel of a node with `sluiced run`. */

const count = 12;
/** Of each of the two holds. */
const holdSeconds = 6;

scene.watchedNode();
const numbers = Array.from({ length: count }, (_, n) => n + 1);
const serving = (...of: readonly number[]): readonly string[] => of.map((n) => `${pod(n)}:8080`).toSorted();

function fill(): void {
  for (const n of numbers) {
    scene.putService(n);
    scene.putEndpoints(n, pod(n));
  }
}

const alarm = async (): Promise<string | undefined> =>
  (JSON.parse((await node.get()) ?? '{}') as { alarms?: Readonly<Record<string, string>> }).alarms?.['REMOVAL_HELD'];

const planes = scene.watchedPlanes('watch removal');

describe.each(planes)('mode $mode, layout $layout, store $backend', { timeout: 150_000 }, (plane) => {
  beforeEach((context) => needBackend(context, plane.backend));

  test('a few Services go at once; all of them are held by both, one after the other, and are back at once', async () => {
    scene.configure(plane, `removals: { holdSeconds: ${holdSeconds} }\n`);
    fill();
    const log = scene.watch('-o', scene.path('rendered'), '--removal-hold', `${holdSeconds}s`);
    node.start();
    const serves = (what: string, of: readonly number[]): Promise<unknown> =>
      until(what, async () => (await node.endpoints(plane)).join() === serving(...of).join(), 60_000);
    await serves('all Services are served', numbers);

    for (const n of [1, 2, 3]) {
      api.remove('services', `s${n}`);
      api.remove('endpointslices', `s${n}-1`);
    }
    await serves('three are gone', numbers.slice(3));
    fill();
    await serves('they are back', numbers);

    const loggedBefore = log().length;
    const lostMs = performance.now();
    api.lose('services');
    api.lose('endpointslices');
    // Its health says so for the seconds of the hold alone, which a busy machine may sleep through: its log stays.
    await until('sluice watch holds them', async () => log().includes('REMOVAL_HELD', loggedBefore), 60_000);
    expect(await alarm()).toBeUndefined();
    expect(await node.endpoints(plane)).toEqual(serving(...numbers));
    await until('the node holds them', async () => (await alarm()) !== undefined, 60_000);
    expect(performance.now() - lostMs).toBeGreaterThan(holdSeconds * 1_000);
    expect(await node.endpoints(plane)).toEqual(serving(...numbers));
    await serves('all are gone', []);
    expect(performance.now() - lostMs).toBeGreaterThan(2 * holdSeconds * 1_000);
    await until('the alarm is over', async () => (await alarm()) === undefined);
    fill();
    await serves('all are back', numbers);
  });
});
