// @module-tag all
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isShare } from '@sluice/testing';
import { afterAll, afterEach, beforeEach, expect, test, type TestContext } from 'vitest';
import { parse } from 'yaml';
import { type Answer, askApi } from '../cluster/ask.fixture.ts';
import { realApi } from '../cluster/real-api.fixture.ts';
import type { TestApi } from '../cluster/api.fixture.ts';
import { goProgram } from '../conformance/programs.ts';
import { build } from '../parity/build.ts';
import { publishRelease } from './sluiced-probation.ts';
import { needBackend, needKernel } from './privileges.ts';
import { plainPlanes, SluicedNode, until } from './sluiced-node.ts';

/** The files of `docs/scheduler.md`: a node keeps its startup taint, and gets no pod, until its confirmed rules are loaded. */

const integrations = join(import.meta.dirname, '../../integrations');
const plugin = JSON.parse(readFileSync(`${integrations}/node-problem-detector/service-rules-ready.json`, 'utf8')) as {
  readonly plugin: string;
  readonly pluginConfig: Readonly<Record<string, string | number>>;
  readonly conditions: readonly [{ readonly type: string; readonly reason: string; readonly message: string }];
  readonly rules: readonly [{ readonly type: string; condition: string; path: string; args: readonly string[] }];
};
const rule = parse(readFileSync(`${integrations}/node-readiness-controller/service-rules.yaml`, 'utf8')) as {
  readonly apiVersion: string;
  readonly kind: string;
  readonly spec: {
    readonly conditions: readonly { readonly type: string; readonly requiredStatus: string }[];
    readonly taint: { readonly key: string; readonly value: string; readonly effect: string };
    readonly enforcementMode: string;
    readonly nodeSelector: { readonly matchLabels: Readonly<Record<string, string>> };
  };
};
const { taint } = rule.spec;

test('the plugin and the rule have the form that their readers want', () => {
  // `CustomPluginConfig.Validate` of Node Problem Detector: a permanent problem needs its default condition.
  expect(plugin).toMatchObject({ plugin: 'custom', rules: [{ type: 'permanent' }] });
  expect(plugin.rules[0].condition).toBe(plugin.conditions[0].type);
  expect(plugin.conditions[0].message.length).toBeLessThanOrEqual(plugin.pluginConfig['max_output_length'] as number);
  // The CEL rules of the CRD of the controller.
  expect(rule).toMatchObject({ apiVersion: 'readiness.node.x-k8s.io/v1alpha1', kind: 'NodeReadinessRule' });
  expect(taint.key).toMatch(/^readiness\.k8s\.io\/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/);
  expect(['NoSchedule', 'PreferNoSchedule', 'NoExecute']).toContain(taint.effect);
  expect(['bootstrap-only', 'continuous']).toContain(rule.spec.enforcementMode);
  expect(Object.keys(rule.spec.nodeSelector.matchLabels)).not.toEqual([]);
  expect(rule.spec.conditions.map(({ type }) => type)).toEqual([plugin.conditions[0].type]);
});

let node: SluicedNode;
let api: TestApi | undefined;
let scheduler: ChildProcess | undefined;
const folder = mkdtempSync(join(tmpdir(), 'sluice-scheduler-'));
beforeEach(needKernel);
afterEach(async () => {
  const ended = scheduler && new Promise((resolve) => scheduler?.once('exit', resolve));
  scheduler?.kill('SIGKILL');
  await ended;
  await api?.close();
  await node?.remove();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function start(context: TestContext): Promise<TestApi> {
  if (isShare) context.skip('the programs of Kubernetes are built by ./dev test --all');
  const [etcd, apiserver, program] = [
    await build(goProgram('etcd')),
    await build(goProgram('kube-apiserver')),
    await build(goProgram('kube-scheduler')),
  ];
  for (const one of [etcd, apiserver, program]) if ('lack' in one) context.skip(one.lack);
  api = await realApi({ etcd: pathOf(etcd), apiserver: pathOf(apiserver) });
  const args = [`--kubeconfig=${api.admin}`, '--leader-elect=false', '--secure-port=0', `--cert-dir=${folder}`];
  scheduler = spawn(pathOf(program), args, { stdio: 'ignore' });
  return api;
}

const pathOf = (built: Awaited<ReturnType<typeof build>>): string => ('path' in built ? built.path : '');

/** What the API server answers to the administrator. */
const ask = (method: string, path: string, body?: object, type?: string): Promise<Answer> =>
  askApi(api?.admin ?? '', method, path, body, type);

const nodePath = '/api/v1/nodes/node-a';
const podPath = '/api/v1/namespaces/default/pods';

/** A Node as its kubelet registers it, and as the lifecycle controller leaves it once it is ready. */
async function register(): Promise<void> {
  const metadata = { name: 'node-a', labels: rule.spec.nodeSelector.matchLabels };
  const resources = { cpu: '2', memory: '1Gi', pods: '10' };
  expect(await ask('POST', '/api/v1/nodes', { metadata, spec: { taints: [taint] } })).toMatchObject({ status: 201 });
  const status = { capacity: resources, allocatable: resources, conditions: [{ type: 'Ready', status: 'True' }] };
  await ask('PATCH', `${nodePath}/status`, { status }, 'application/strategic-merge-patch+json');
  await ask('PATCH', nodePath, { spec: { taints: [taint] } }, 'application/merge-patch+json');
}

/** As `pkg/custompluginmonitor` of Node Problem Detector: exit code 0 is False with the default reason, 1 is True, others are Unknown. */
async function detect(): Promise<string> {
  const [{ path, args, condition }] = plugin.rules;
  const files = args.map((one) => one.replace(/^\/config\//, `${integrations}/node-problem-detector/`));
  const ran = node.tool([path, ...files]).then(
    (output) => ({ code: 0, output }),
    (error: { readonly exitCode: number; readonly stdout: string }) => ({ code: error.exitCode, output: error.stdout }),
  );
  const { code, output } = await ran;
  const status = ['False', 'True'][code] ?? 'Unknown';
  const message = status === 'False' ? plugin.conditions[0].message : output;
  const told = { type: condition, status, reason: plugin.conditions[0].reason, message };
  const statusPath = `${nodePath}/status`;
  await ask('PATCH', statusPath, { status: { conditions: [told] } }, 'application/strategic-merge-patch+json');
  return status;
}

/** As the controller, mode continuous: the taint is there unless each condition has its status. */
async function reconcile(): Promise<void> {
  const { spec, status } = (await ask('GET', nodePath)).object;
  const isMet = rule.spec.conditions.every(({ type, requiredStatus }) =>
    status.conditions.some(
      (one: { type: string; status: string }) => one.type === type && one.status === requiredStatus,
    ),
  );
  const others = (spec.taints ?? []).filter(({ key }: { key: string }) => key !== taint.key);
  const taints = isMet ? others : [...others, taint];
  await ask('PATCH', nodePath, { spec: { taints } }, 'application/merge-patch+json');
}

/** The condition, and whether the taint is there, after both have run. */
async function now(): Promise<string> {
  const status = await detect();
  await reconcile();
  const { taints = [] } = (await ask('GET', nodePath)).object.spec;
  return `${status} ${taints.some(({ key }: { key: string }) => key === taint.key) ? 'tainted' : 'free'}`;
}

/** What the scheduler says of a node with a taint; its names are not told. */
const untolerated = '1 node(s) had untolerated taint';
const pod = (name: string) => ({ metadata: { name }, spec: { containers: [{ name: 'c', image: 'none' }] } });

test('a node gets its first pod once its first release is confirmed, and none while sluiced is away', {
  timeout: 3_600_000,
}, async (context) => {
  const [plane] = plainPlanes;
  needBackend(context, plane.backend);
  await start(context);
  node = await SluicedNode.make();
  await register();
  await until('the namespace takes pods', async () => (await ask('POST', podPath, pod('one'))).status === 201);
  const placeOf = async (name: string): Promise<string> => {
    const { spec, status } = (await ask('GET', `${podPath}/${name}`)).object;
    return String(spec.nodeName ?? status.conditions?.[0]?.message ?? '');
  };
  await until('the taint keeps the pod away', async () => (await placeOf('one')).includes(untolerated), 60_000);
  expect(await now(), 'no daemon').toBe('False tainted');

  node.writeConfig(plane.backend, 'probation: {seconds: 600}\nprobes: [{name: good, exec: [/bin/true]}]\n');
  publishRelease(node, plane, 1);
  const daemon = node.start();
  await until('the first release is on probation', async () => (await node.endpoints(plane)).length > 0, 60_000);
  expect(await now(), 'on probation').toBe('False tainted');
  expect(await placeOf('one')).not.toBe('node-a');
  await until('it is confirmed', async () => (await node.sluiced('confirm')).exitCode === 0, 60_000);
  await until('the node is free', async () => (await now()) === 'True free', 60_000);
  await until('the pod is scheduled', async () => (await placeOf('one')) === 'node-a', 60_000);

  expect(await node.sluiced('drain')).toMatchObject({ exitCode: 0 });
  expect(await now(), 'drained').toBe('True free');
  await node.kill(daemon);
  expect(await now(), 'killed').toBe('False tainted');
  expect((await ask('POST', podPath, pod('two'))).status).toBe(201);
  await until('the taint keeps the next pod away', async () => (await placeOf('two')).includes(untolerated), 60_000);
  node.start();
  await until('the node is free again', async () => (await now()) === 'True free', 60_000);
  await until('the second pod is scheduled', async () => (await placeOf('two')) === 'node-a', 60_000);
});
