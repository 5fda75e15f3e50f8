// @module-tag all
import { beforeEach, describe, expect, test } from 'vitest';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { node, withNode } from './node-of-test.ts';
import { needBackend } from './privileges.ts';
import { layoutPlanes, until } from './sluiced-node.ts';

/** Health of a node whose kernel lacks what the directory has, by each port and by `sluiced status`. */

withNode();

const own = 'http://127.0.0.1:10276';
const lateSeconds = 3;

/** The status code, or 0 where nothing listens, and the body. */
async function ask(url: string): Promise<readonly [code: number, body: string]> {
  const command = ['sh', '-c', `curl -s -m 2 -w '\\n%{http_code}' ${url} || true`];
  const lines = (await node.tool(command)).split('\n');
  return [Number(lines.at(-1)), lines.slice(0, -1).join('\n')];
}
const codes = async (): Promise<readonly number[]> => [
  (await ask(`${own}/healthz`))[0],
  (await ask('http://127.0.0.1:10256/healthz'))[0],
];

describe.each(layoutPlanes)('mode $mode, layout $layout, store $backend', { timeout: 120_000 }, (plane) => {
  const { mode, backend, layout } = plane;
  beforeEach((context) => needBackend(context, backend));

  /** @param isGood the files of `shop/late` can be read */
  function publish(endpoints: readonly number[], isGood: boolean): void {
    const services = { 'shop/web': [1], 'shop/late': endpoints };
    const files = sampleBundle({ services, mode });
    const isOfLate = (path: string): boolean => path.includes('/shop/late.');
    const texts = [...files].map(
      ([path, text]) => [path, isOfLate(path) && !isGood ? `${text}nonsense\n` : text] as const,
    );
    writeBundle(`${node.directory}/rendered`, new Map(texts));
  }

  test('a Service or an endpoint that the kernel lacks for too long makes all ports unhealthy, with its name', async () => {
    node.writeConfig(backend, `layout: ${layout}\nlateSeconds: ${lateSeconds}\nhealthzBindAddress: 127.0.0.1:10256\n`);
    writeBundle(`${node.directory}/rendered`, sampleBundle({ services: { 'shop/web': [1] }, mode }));
    node.start();
    await until('it is healthy', async () => (await codes()).join() === '200,200', 30_000);

    const isLate = async (): Promise<boolean> => (await codes()).join() === '503,503';
    const isTold = async (): Promise<void> => {
      const { alarms } = JSON.parse((await ask(`${own}/healthz`))[1]) as { alarms: Record<string, string> };
      expect(alarms['SERVICES_LATE']).toMatch(/^The kernel lacks Services shop\/late: /);
      expect((await node.sluiced('status')).stdout).toMatch(/SERVICES_LATE.*shop\/late/);
      expect((await ask(`${own}/metrics`))[1]).toMatch(/^sluice_alarm\{code="SERVICES_LATE"\} 1$/m);
      const [, document] = await ask('http://127.0.0.1:10256/healthz');
      expect(JSON.parse(document)).toMatchObject({ healthy: false });
      // The process lives: no kubelet and no systemd is to restart it.
      expect((await ask(`${own}/livez`))[0]).toBe(200);
    };
    publish([2], false);
    const begun = performance.now();
    await until('a new Service is late', isLate, 30_000);
    expect(performance.now() - begun).toBeGreaterThan((lateSeconds - 1) * 1000);
    await isTold();
    publish([2], true);
    await until('it is healthy with the Service', async () => (await codes()).join() === '200,200', 30_000);
    expect(await node.endpoints(plane)).toContain('10.244.0.3:8080');

    publish([3], false);
    await until('an endpoint is late', isLate, 30_000);
    await isTold();
    publish([3], true);
    await until('it is healthy with the endpoint', async () => (await codes()).join() === '200,200', 30_000);
  });
});
