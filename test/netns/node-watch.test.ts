// @module-tag test
import { rmSync } from 'node:fs';
import { beforeEach, describe, expect, test } from 'vitest';
import { needBackend } from './privileges.ts';
import { until } from './sluiced-node.ts';
import * as scene from './watched-node.ts';
import { api, endWatch, node, pod } from './watched-node.ts';

/** A node's own watch: an API server, `sluice watch --node`, and the kernel of that node with `sluiced run`. */

scene.watchedNode();
const watch = () => scene.watch('--node', 'node-a', '-o', scene.path('rendered'));

function put(n: number, endpoint: number): void {
  scene.putService(n);
  scene.putEndpoints(n, pod(endpoint));
}

const planes = scene.watchedPlanes('node watch');

describe.each(planes)('mode $mode, layout $layout, store $backend', { timeout: 150_000 }, (plane) => {
  beforeEach((context) => needBackend(context, plane.backend));

  test("a node's own watch brings Services and endpoints; without the API server the node keeps and boots its rules", async () => {
    scene.configure(plane);
    put(1, 1);
    const serves = (what: string, ...of: readonly number[]): Promise<unknown> => {
      const served = of.map((n) => `${pod(n)}:8080`).toSorted();
      return until(what, async () => (await node.endpoints(plane)).join() === served.join(), 60_000);
    };
    watch();
    const daemon = node.start();
    await serves('the first Service', 1);
    put(2, 2);
    await serves('a new Service', 1, 2);
    put(1, 3);
    await serves('a replaced endpoint', 2, 3);

    api.server.intercept = (_path, request) => (request.socket.destroy(), true);
    api.drop();
    await endWatch();
    await node.kill(daemon, 'SIGTERM');
    rmSync(scene.path('rendered'), { recursive: true });
    await node.forgetRules(plane.backend);
    expect(await node.endpoints(plane)).toEqual([]);
    expect(await node.sluiced('boot')).toMatchObject({ exitCode: 0 });
    const booted = ['10.244.1.2:8080', '10.244.1.3:8080'];
    expect(await node.endpoints(plane)).toEqual(booted);
    const log = watch();
    node.start();
    await until('the watch says that the API server is away', async () => log().includes('API configmaps'), 60_000);
    await until('the node is healthy with its rules', async () => {
      const { healthy, generation } = JSON.parse((await node.get()) ?? '{}') as Record<string, unknown>;
      return healthy === true && generation !== null;
    });
    expect(await node.endpoints(plane)).toEqual(booted);

    api.server.intercept = (path, request, response) => api.answer(path, request, response);
    put(4, 4);
    await serves('what the API server has by then', 2, 3, 4);
  });
});
