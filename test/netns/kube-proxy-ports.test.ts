// @module-tag all
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ineligibilityLine } from '@sluice/bundle';
import { sampleBundle, writeBundle } from '../../packages/applier/src/testing/bundle.fixture.ts';
import { publish } from '../monitoring/faults.ts';
import { needBackend, needKernel } from './privileges.ts';
import { SluicedNode, until } from './sluiced-node.ts';

/** A load balancer and a scraper that were set up for kube-proxy, beside the real daemon. */

let node: SluicedNode;
beforeEach(needKernel);
beforeEach(async (context) => {
  needBackend(context, 'nft');
  node = await SluicedNode.make();
});
afterEach(() => node.remove());

/** The status code, or 0 where nothing listens, and the body. */
async function ask(url: string): Promise<readonly [number, string]> {
  const command = ['sh', '-c', `curl -s -m 2 -w '\\n%{http_code}' ${url} || true`];
  const lines = (await node.tool(command)).split('\n');
  return [Number(lines.at(-1)), lines.slice(0, -1).join('\n')];
}

const health = 'http://127.0.0.1:10256/healthz';

test('answers on 10256 and 10249 before the first bundle, with one, and not at all when it has ended', {
  timeout: 120_000,
}, async () => {
  node.writeConfig('nft', 'healthzBindAddress: 127.0.0.1:10256\nmetricsBindAddress: 127.0.0.1:10249\n');
  const daemon = node.start();
  await until('it waits for a bundle', async () => (await ask(health))[0] === 503, 30_000);
  expect((await ask('http://127.0.0.1:10249/proxyMode'))[0]).toBe(503);
  publish(node, 1, 4);
  await until('it is healthy', async () => (await ask(health))[0] === 200, 30_000);
  const [, document] = await ask(health);
  expect(JSON.parse(document)).toMatchObject({
    healthy: true,
    nodeEligible: true,
    status: { IPv4: { healthy: true }, IPv6: { healthy: true } },
  });
  expect(await ask('http://127.0.0.1:10249/proxyMode')).toEqual([200, 'iptables']);
  expect(await ask('http://127.0.0.1:10249/healthz')).toEqual([200, 'ok']);
  const [code, metrics] = await ask('http://127.0.0.1:10249/metrics');
  expect(code).toBe(200);
  for (const line of [
    /^kubeproxy_proxy_healthz_total\{code="200"\} [1-9]/m,
    /^kubeproxy_proxy_healthz_total\{code="503"\} [1-9]/m,
    /^kubeproxy_sync_proxy_rules_duration_seconds_count(?:\{[^}]*\})? [1-9]/m,
    /^kubeproxy_sync_proxy_rules_last_timestamp_seconds(?:\{[^}]*\})? 1\.?\d/m,
    /^sluice_build_info\{/m,
  ])
    expect(metrics).toMatch(line);
  await node.kill(daemon);
  expect((await ask(health))[0]).toBe(0);
});

test('tells load balancers of a Node that is to be deleted, without a change of its rules', {
  timeout: 240_000,
}, async () => {
  node.writeConfig('nft', 'healthzBindAddress: 127.0.0.1:10256\n');
  publish(node, 1, 4);
  node.start();
  await until('it is healthy', async () => (await ask(health))[0] === 200, 60_000);
  const generation = await node.tool(['curl', '-s', 'http://127.0.0.1:10276/metrics']);
  const files = sampleBundle({ services: { 'shop/web': [1, 4], 'shop/cart': [50] }, families: ['ipv4', 'ipv6'] });
  const isOwn = (path: string): boolean => path.startsWith('nodes/');
  const mark = ineligibilityLine('ToBeDeletedByClusterAutoscaler');
  writeBundle(
    `${node.directory}/rendered`,
    new Map([...files].map(([path, text]) => [path, isOwn(path) ? mark + text : text])),
  );
  await until('load balancers are told', async () => (await ask(health))[0] === 503, 30_000);
  expect(JSON.parse((await ask(health))[1])).toMatchObject({ healthy: true, nodeEligible: false });
  expect((await node.sluiced('status')).stdout).toMatch(/^eligible +no: .*\(ToBeDeletedByClusterAutoscaler\)$/m);
  const metrics = await node.tool(['curl', '-s', 'http://127.0.0.1:10276/metrics']);
  const line = (text: string): string | undefined => /^sluice_generation .*$/m.exec(text)?.[0];
  expect([line(metrics), /^sluice_node_eligible .*$/m.exec(metrics)?.[0]]).toEqual([
    line(generation),
    'sluice_node_eligible 0',
  ]);
  writeBundle(`${node.directory}/rendered`, files);
  await until('it is eligible again', async () => (await ask(health))[0] === 200, 30_000);
});
