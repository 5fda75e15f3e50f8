import { afterEach, describe, expect, test } from 'vitest';
import type { TrackedFlow, TrackedPath } from '../../ports/kernel.ts';
import { sampleBundle } from '../../testing/bundle.fixture.ts';
import { dataPlanes, endpointNumbers } from '../../testing/data-plane.fixture.ts';
import { flush } from '../../testing/flush.fixture.ts';
import { type Scene, scene } from '../../testing/scene.fixture.ts';

/** Conntrack entries are compared with the endpoints of the active generation, on its rules. */

let node: Scene = scene();
afterEach(() => node.end());

/** Sample bundles of mode ipvs have no UDP. */
describe.each(dataPlanes.filter((plane) => plane.mode !== 'ipvs'))('layout $layout, mode $mode', ({ layout, mode }) => {
  /** A node that serves shop/web, and a connection to an endpoint that it does not have any more. */
  async function start() {
    node.end();
    node = scene();
    node.layout = layout;
    const seen: boolean[] = [];
    const serves = (): boolean => endpointNumbers(node.kernel).includes(1);
    const stale: TrackedPath = { family: 'ipv4', address: '10.96.0.11', port: 80, endpoint: '10.244.0.99:8080' };
    let paths: readonly TrackedPath[] = [stale];
    const forget = node.kernel.forgetFlows.bind(node.kernel);
    const kernel = Object.assign(node.kernel, {
      trackedPaths: async () => paths,
      forgetFlows: async (...asked: Parameters<typeof forget>) => {
        if (asked[0].length > 0) seen.push(serves());
        return forget(...asked);
      },
    });
    const { reconciler } = await node.start({}, { kernel });
    const services = { 'shop/web': [1, 2], 'shop/cart': [3] };
    await reconciler.put(sampleBundle({ services, mode, protocol: 'udp' }), false);
    seen.splice(0);
    return { reconciler, seen, setPaths: (all: readonly TrackedPath[]) => void (paths = all) };
  }

  test('deletes the entry of a connection to an endpoint that is gone', async () => {
    const { reconciler, seen } = await start();
    expect([await reconciler.reconcileFlows(), seen]).toEqual([1, [true]]);
  });

  test('deletes no entry of a connection while its rules are gone', async () => {
    const { reconciler, seen } = await start();
    flush(node.kernel, mode === 'iptables' ? 'empties' : 'removes', mode);
    expect([await reconciler.reconcileFlows(), seen]).toEqual([1, [true]]);
    expect(await reconciler.differences()).toEqual([]);
  });

  test('deletes the entry of a connection that began while its rules were gone, at an address of a Service alone', async () => {
    const { reconciler, setPaths } = await start();
    const asked: (readonly TrackedFlow[])[] = [];
    node.kernel.forgetFlows = async (flows) => {
      asked.push(flows);
      return 0;
    };
    const bare = { family: 'ipv4', address: '10.96.0.11', port: 80, endpoint: '10.96.0.11:80' } as const;
    setPaths([bare, { ...bare, address: '10.96.0.99', endpoint: '10.96.0.99:80' }]);
    expect(await reconciler.reconcileFlows()).toBe(1);
    expect(asked.flat()).toEqual([{ ...bare, protocol: 'udp', endpoint: undefined }]);
  });

  test('takes the entries again after a repair', async () => {
    const { reconciler, seen, setPaths } = await start();
    flush(node.kernel, 'removes', mode);
    const repair = node.kernel.apply.bind(node.kernel);
    node.kernel.apply = async (step) => {
      // The client has come back meanwhile.
      setPaths([]);
      return repair(step);
    };
    expect([await reconciler.reconcileFlows(), seen]).toEqual([0, []]);
  });
});
