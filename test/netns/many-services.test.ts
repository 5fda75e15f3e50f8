// @module-tag test
import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import { oneInTurn } from '../one-in-turn.ts';
import { limits } from '../../packages/applier/src/limits.ts';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { needBackend, needKernel } from './privileges.ts';
import { plainPlanes, SluicedNode, until } from './sluiced-node.ts';

/**
 * A cluster that makes one Service after the other, on a node with the defaults of `sluiced.yaml`: what waits for a release on probation goes
 * in together with the next one, however many there were within the hour.
 */

const count = 70;
const seconds = 20;
/** What a change may take besides the probation before it; generous for busy machines, and the figures are printed. */
const loadMsMax = 15_000;

beforeEach(needKernel);

const service = (n: number): string => `shop/s${String(n).padStart(3, '0')}`;
const endpoint = (n: number): string => `10.244.0.${n + 2}:8080`;

const planes = oneInTurn(plainPlanes, 'many Services');

describe.concurrent.each(planes)('on $backend, mode $mode', { timeout: 180_000 }, (plane) => {
  const { backend, mode } = plane;

  test(`${count} Services that are made within ${seconds} s wait for one probation at most`, async (context) => {
    needBackend(context, backend);
    const node = await SluicedNode.make();
    try {
      const services: Record<string, number[]> = { [service(0)]: [1] };
      const publish = (): void => writeBundle(`${node.directory}/rendered`, sampleBundle({ services, mode }));
      publish();
      node.writeConfig(backend);
      const config = `${node.directory}/sluiced.yaml`;
      const defaults = readFileSync(config, 'utf8').replace(/^(?:scanIntervalSeconds|probation):.*\n/gm, '');
      writeFileSync(config, defaults);
      node.start();
      await until(
        'the first Service is there',
        async () => (await node.endpoints(plane)).includes(endpoint(0)),
        60_000,
      );
      const writtenMs = new Map<string, number>();
      const waitedMs = new Map<string, number>();
      const writing = (async () => {
        for (let n = 1; n <= count; n++) {
          services[service(n)] = [n + 1];
          writtenMs.set(endpoint(n), performance.now());
          publish();
          await sleep((seconds * 1000) / count);
        }
      })();
      await until(
        'every Service is there',
        async () => {
          for (const one of await node.endpoints(plane)) {
            const atMs = writtenMs.get(one);
            if (atMs !== undefined && !waitedMs.has(one)) waitedMs.set(one, performance.now() - atMs);
          }
          return waitedMs.size === count;
        },
        120_000,
      );
      await writing;
      const waits = [...waitedMs.values()].toSorted((a, b) => a - b);
      const most = waits.at(-1)!;
      const median = waits[Math.floor(waits.length / 2)]!;
      // oxlint-disable-next-line no-console -- figures for docs/performance.md
      console.log(
        `${count} Services in ${seconds} s on ${backend}, mode ${mode}: in the kernel after ${Math.round(median)} ms (median), ${Math.round(most)} ms (last)`,
      );
      expect(most).toBeLessThan(limits.probationSecondsDefault * 1000 + loadMsMax);
      expect(await node.get('/status')).toContain('"healthy": true');
    } finally {
      await node.remove();
    }
  });
});
